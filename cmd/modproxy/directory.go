package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// directoryFlags are the flags of verbs that read configurations on disk. The verbs read them in a child process.
type directoryFlags struct{ closure.Roots }

func (d *directoryFlags) add(cmd *cobra.Command) {
	addFlag(cmd, &d.Clients, "client", "read DIR as this `client` does: terraform, tofu or both (from the files in DIR, else the client that installs most)",
		func(s string) ([]tfconfig.Client, error) {
			clients := app.ParseClient(s)
			if clients == nil {
				return nil, fmt.Errorf("want terraform, tofu or both, not %.80q", s)
			}
			return clients, nil
		})
	addFlag(cmd, &d.Given, "var", "`NAME=VALUE` of a variable of DIR that sources and versions depend on", func(s string) (map[string]string, error) {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("want NAME=VALUE, not %.80q", s)
		}
		if d.Given == nil {
			d.Given = map[string]string{}
		}
		d.Given[name] = value
		return d.Given, nil
	})
	cmd.Flags().StringArrayVar(&d.VarFiles, "var-file", nil, "`file` with values of variables of DIR; --var takes precedence")
}

// given reports whether a flag about directories is given.
func (d *directoryFlags) given() bool { return len(d.Clients)+len(d.Given)+len(d.VarFiles) > 0 }

// starts returns the calls in directories. failed lists problems in parts of them; the other parts are read. Variables have the values that
// clients would use here, including those of TF_VAR_…. Without --client, a directory is read for the clients that [app.ClientsOf] returns.
func (d *directoryFlags) starts(ctx context.Context, env *environment, dirs ...string) (starts []closure.Start, failed problems, err error) {
	d.Environment = map[string]string{}
	for _, variable := range env.variables {
		if name, value, ok := strings.Cut(strings.TrimPrefix(variable, "TF_VAR_"), "="); ok && strings.HasPrefix(variable, "TF_VAR_") {
			d.Environment[name] = value
		}
	}
	usual := app.UsualClient(func() (tfconfig.Client, error) {
		return ask(ctx, env, admin.ClientsUsual, struct{}{}, func(struct{}) error { return nil })
	})
	for _, dir := range dirs {
		roots, why := d.Roots, ""
		isKnown := len(roots.Clients) > 0 // otherwise roots is read for both clients
		if roots.Dirs = []string{dir}; len(roots.Clients) == 0 {
			roots.Clients, why = app.ClientsOf(dir, usual)
			isKnown = why != ""
		}
		if why != "" && !env.json() {
			env.remark(fmt.Errorf("%s is read as %s: %s; --client says otherwise", dir, app.ClientNames(roots.Clients), why))
		}
		some, wrong, err := roots.Starts(ctx, tfconfig.NewReader(nil, 0))
		if err != nil {
			return nil, nil, err
		}
		if !isKnown && !env.json() && slices.ContainsFunc(some, dependsOnClient) {
			env.remark(fmt.Errorf("%s is read for Terraform and OpenTofu: no .terraform.lock.hcl or other file shows its client, "+
				"so sources without a hostname come twice, from the registry of each; --client chooses one", dir))
		}
		starts = append(starts, some...)
		for _, p := range wrong {
			failed = append(failed, errors.New(printable(p.String())))
		}
	}
	return starts, failed, nil
}

// dependsOnClient reports whether a source in s has no hostname, so that each client requests it from another registry.
func dependsOnClient(s closure.Start) bool {
	const none = "no-hostname.invalid"
	module, _, ok := tfconfig.ParseRegistrySource(s.Source, none)
	return ok && module.Host == none || slices.ContainsFunc(s.Providers, func(r tfconfig.Requirement) bool {
		provider, err := tfconfig.ParseProviderSource(r.Source, none)
		return err == nil && provider.Host == none
	})
}
