package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/suggest"
	"github.com/modproxy/modproxy/tfconfig"
)

func newModulesSuggestCommand(env *environment) *cobra.Command {
	var host string
	cmd := withKeys(&cobra.Command{
		Use:   "suggest [DIR]",
		Short: "Print mappings and new sources for calls of git repositories",
		Long:  modulesSuggestHelp,
		Example: `  modproxy modules suggest live
  modproxy modules suggest . --host modules.example.com`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return env.suggestModules(cmd.Context(), dir, host)
		},
	})
	addFlag(cmd, &host, "host", "`host` in the new sources (modules_host, else the host of public_url)", parseModulesHost)
	return withJSON(cmd, `"mapping": {…}} or {"change": {…}} or {"rest": {…}`, `"modules_host", "mappings", "changes", "rest"`)
}

const modulesSuggestHelp = `Find the module calls in DIR (default: the working directory) whose source is a
git repository, such as git::https://…?ref=v1.2.3. Print entries for the
configuration key modules, with which this proxy serves these modules by their
tags, and the new source and version of each call. Nothing is changed, and
nothing is sent over the network.

modproxy reads the files of Terraform and OpenTofu in DIR and in the directories
below it, but not hidden directories such as .terraform, links to directories,
tests (*.tftest.hcl) and Terragrunt files. A source that depends on a variable
is not known.

The address of a module comes from its repository. The namespace is the
organisation. terraform-SYSTEM-NAME has the name and the target system; without
a system, it is "any". If the tags of a repository begin with a directory, as
vpc/v1.2.3, each directory is a module; otherwise it follows the address, as
acme/modules/any//vpc. Several modules that follow one convention have one entry
with {name} and {system}, which also matches modules that nothing calls.

Calls by a branch, by a commit, or by a tag without a full version are printed
at the end: they need a tag such as v1.2.3 first. A ref that ends with a version
counts as a tag, because only the repository knows its branches.`

// suggestion is a line of the output of "modules suggest" in JSON: one of its fields.
type suggestion struct {
	Mapping *suggest.Mapping `json:"mapping,omitempty"`
	Change  *suggest.Change  `json:"change,omitempty"`
	Rest    *suggest.Rest    `json:"rest,omitempty"`
}

func parseModulesHost(s string) (string, error) {
	host, err := hostname.Parse(s)
	if err == nil {
		err = suggest.CheckHost(host)
	}
	return host, err
}

// modulesHost returns the host of own modules in the configuration, or an empty string.
func (env *environment) modulesHost() (string, error) {
	c, err := env.settings()
	if err != nil || c.FutureOwnHost() == "" {
		return "", err
	}
	host, err := parseModulesHost(hostname.Display(c.FutureOwnHost()))
	if err != nil {
		return "", misuse{fmt.Errorf("modules_host or public_url: %w", err)}
	}
	return host, nil
}

// suggestModules prints what is suggested for the configurations in and below dir.
func (env *environment) suggestModules(ctx context.Context, dir, host string) (err error) {
	if host == "" {
		if host, err = env.modulesHost(); err != nil {
			return err
		}
	}
	isExample := host == ""
	if isExample {
		host = "modules.example.com"
	}
	calls, wrong, err := suggest.Find(ctx, tfconfig.NewReader(nil, 0), dir)
	if unreadable, ok := errors.AsType[*fs.PathError](err); ok {
		return misuse{unreadable}
	} else if err != nil {
		return err
	}
	s := calls.Suggest(host)
	if isExample && len(s.Changes) > 0 {
		env.remark(fmt.Errorf("%s is an example: --host or modules_host gives the host in the new sources, which cannot change later", host))
	}
	if err := env.printSuggestion(s, hostname.Display(host)); err != nil {
		return err
	}
	end := ""
	if len(s.Changes)+len(s.Rest) == 0 {
		end = fmt.Sprintf("No module call in %s has a git repository as its source.\n", printable(dir))
	}
	err = env.end(map[string]any{
		"modules_host": host, "mappings": len(s.Mappings), "changes": len(s.Changes), "rest": len(s.Rest),
	}, end)
	if err != nil || len(wrong) == 0 {
		return err
	}
	var failed problems
	for _, p := range wrong {
		failed = append(failed, errors.New(printable(p.String())))
	}
	return failed
}

// printSuggestion prints a suggestion without the end of the output.
func (env *environment) printSuggestion(s suggest.Suggestion, host string) error {
	for i, m := range s.Mappings {
		lead := ""
		if i == 0 {
			lead = fmt.Sprintf("# For the configuration of modproxy. Public registries are not asked about these namespaces,\n"+
				"# also not about providers.\nmodules_host: %s\nmodules:\n", host)
		}
		if err := env.item(suggestion{Mapping: &m}, lead+mappingText(m)); err != nil {
			return err
		}
	}
	for i, c := range s.Changes {
		lead := "\n"
		if i == 0 {
			lead = "\n# For the calls.\n"
		}
		text := fmt.Sprintf("%s%s: %s\n  source  = %s\n  version = %s\n", lead, printable(c.Place()), printable(c.Old), strconv.Quote(c.Source), strconv.Quote(c.Version))
		if err := env.item(suggestion{Change: &c}, text); err != nil {
			return err
		}
	}
	for i, r := range s.Rest {
		lead := ""
		if i == 0 {
			lead = "\n# These calls need the tag of a version first, such as v1.2.3.\n"
		}
		text := fmt.Sprintf("%s%s: %s: %s\n", lead, printable(r.Place()), printable(r.Old), printable(r.Reason))
		if r.Old == "" {
			text = fmt.Sprintf("%s%s: %s\n", lead, printable(r.Place()), printable(r.Reason))
		}
		if err := env.item(suggestion{Rest: &r}, text); err != nil {
			return err
		}
	}
	return nil
}

// mappingText returns a mapping in YAML, with comments.
func mappingText(m suggest.Mapping) string {
	var b strings.Builder
	for _, r := range m.Remarks {
		fmt.Fprintf(&b, "  # %s\n", printable(r))
	}
	fmt.Fprintf(&b, "  - {address: %s, source: %s", strconv.Quote(m.Address), strconv.Quote(m.Source))
	if m.Path != "" {
		fmt.Fprintf(&b, ", path: %s", strconv.Quote(m.Path))
	}
	if m.Tags != "" {
		fmt.Fprintf(&b, ", tags: %s", strconv.Quote(m.Tags))
	}
	b.WriteString("}\n")
	return b.String()
}
