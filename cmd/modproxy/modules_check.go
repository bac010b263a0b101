package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/upstream/tags"
)

func newModulesCheckCommand(env *environment) *cobra.Command {
	return withJSON(withKeys(&cobra.Command{
		Use:   "check [ADDRESS…]",
		Short: "List the versions of own modules, and tags that are not versions",
		Long: `Request the tags of the repository of each entry of modules, and print the
versions, the versions that tags with different commits name, and the tags that
are not versions. An entry with {name} or {system} is only printed: name one of
its modules as ADDRESS. With ADDRESS, check only these modules.

check reads the configuration, and requests the repositories itself, with the
credentials of the configuration. It changes nothing, and modproxy need not run.
It does not download packages: a tag without the directory path is listed.

Exit codes: 0 every version has one meaning, 1 a repository cannot be read or a
version is ambiguous.`,
		Example: `  modproxy modules check
  modproxy modules check corp/vpc/aws --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return env.checkModules(cmd.Context(), args) },
	}), `"module" or "pattern", "repository", "forms", "versions", "ambiguous", "others", "error", …`, `"versions", "ambiguous", "failed"`)
}

// checkedModule is the result of "modules check" for an entry of modules, or for an address.
type checkedModule struct {
	Module  string `json:"module,omitempty"`
	Pattern string `json:"pattern,omitempty"` // instead of Module
	*tags.Inspection
	Error string `json:"error,omitempty"`

	address modproxy.Address // of Module
}

// checkModules prints the tags of modules: of those with these addresses, or without addresses of all entries of modules.
func (env *environment) checkModules(ctx context.Context, addresses []string) (err error) {
	c, err := env.load()
	if err != nil {
		return err
	}
	if len(c.Modules) == 0 && c.File() == "" {
		return hint.With(errors.New("no configuration file is in use, and own modules are configured in one"), "name the file with --config, or in MODPROXY_CONFIG")
	}
	if len(c.Modules) == 0 {
		return hint.With(errors.New("the configuration has no own modules"), "the key modules maps addresses to git repositories")
	}
	if c.Offline {
		return errors.New("offline is set, and no repository is requested: check own modules on the connected side")
	}
	list, err := modulesToCheck(c, addresses)
	if err != nil {
		return err
	}
	modules, done, err := app.OpenModules(c, app.Options{Version: buildVersion()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var failed problems
	versions, ambiguous := 0, 0
	for _, m := range list {
		if m.Pattern == "" {
			i, err := modules.Inspect(ctx, m.address)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", m.Module, err))
				m.Error = err.Error()
			} else {
				m.Inspection = i
				versions, ambiguous = versions+len(i.Versions), ambiguous+len(i.Ambiguous)
			}
		}
		if err := env.item(m, m.text()); err != nil {
			return err
		}
	}
	if err := env.end(map[string]int{"versions": versions, "ambiguous": ambiguous, "failed": len(failed)}, ""); err != nil {
		return err
	}
	if ambiguous > 0 {
		failed = append(failed, fmt.Errorf("versions that tags with different commits name: %d", ambiguous))
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// modulesToCheck returns the modules with these addresses, or without addresses all entries of modules, without their tags.
func modulesToCheck(c *config.Config, addresses []string) (list []checkedModule, err error) {
	add := func(a modproxy.Address, i *tags.Inspection) {
		list = append(list, checkedModule{Module: a.String(), Inspection: i, address: a})
	}
	for _, text := range addresses {
		v, err := versionname.Name{Module: text}.Parse(c.OwnHost())
		if err == nil && v.Host != c.OwnHost() {
			err = fmt.Errorf("%s: own modules have the host %s", v, c.OwnHost())
		}
		if err != nil {
			return nil, misuse{err}
		}
		add(v.Address, nil)
	}
	if len(addresses) > 0 {
		return list, nil
	}
	for _, m := range c.Mappings() {
		if a, isExact := m.Exact(); isExact {
			a.Host = c.OwnHost()
			add(a, m.Describe())
		} else {
			list = append(list, checkedModule{Pattern: c.OwnHost() + "/" + m.String(), Inspection: m.Describe()})
		}
	}
	return list, nil
}

// mostNames is the number of versions or tags in one line.
const mostNames = 20

func (m checkedModule) text() string {
	if m.Inspection == nil || m.Error != "" {
		return "" // the error is printed at the end
	}
	in, forms := m.Repository, strings.Join(m.Forms, " or ")
	if m.Path != "" {
		in += ", directory " + m.Path
	}
	if m.Pattern != "" {
		return fmt.Sprintf("%s: tags %s in %s\n", m.Pattern, forms, printable(in))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in %s\n", m.Module, count(len(m.Versions), "version"), printable(in))
	var plain, others []string
	for _, o := range m.Others {
		if tag := fmt.Sprintf("%.200q", o.Tag); o.IsOtherForm() {
			others = append(others, tag)
		} else {
			plain = append(plain, tag+" ("+o.Why+")")
		}
	}
	lines := func(what string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(&b, "  %s: %s\n", what, firstNames(names, mostNames))
		}
	}
	lines("versions", m.Versions)
	for _, a := range m.Ambiguous {
		fmt.Fprintf(&b, "  ambiguous: %s: %s\n", a.Version, printable(a.Why))
	}
	lines("not versions", plain)
	lines("not of the form "+forms, others)
	return b.String()
}
