package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
)

func newRefreshCommand(env *environment) *cobra.Command {
	var all bool
	cmd := env.withServer(&cobra.Command{
		Use:   "refresh MODULE… | --all",
		Short: "Request the current versions of modules from registries",
		Long: `Request the versions of a module from its registry, even if the cached list is
fresh, and print the new and the removed versions in one line. modproxy also
forgets which versions did not exist or could not be downloaded. Clients can
then install a version that was published a moment ago.

A version that the registry removed stays listed if its package is stored or can
be downloaded from its recorded source.

` + moduleUsage + `

--all selects every module and provider that has or had a cached package.`,
		Example: `  modproxy refresh acme/vpc/aws hashicorp/aws
  modproxy refresh --all`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return misuse{errors.New("want the addresses of modules, or --all")}
			}
			return env.refresh(cmd.Context(), all, args)
		},
	}, "offline")
	cmd.Flags().BoolVar(&all, "all", false, "select every module and provider that has or had a cached package")
	return withJSON(cmd, `"module", "versions", "new", "gone", "kept", "error"`, "")
}

// refresh requests the versions of modules, or of all modules, from their registries and prints the changes.
func (env *environment) refresh(ctx context.Context, all bool, modules []string) error {
	in := admin.RefreshRequest{All: all}
	for _, arg := range modules {
		v, err := env.chosen(arg)
		if err != nil {
			return err
		}
		in.Modules = append(in.Modules, v.Address.String())
	}
	var failed problems
	show := printer(env, refreshedText)
	_, err := ask(ctx, env, admin.ModulesRefresh, in, func(m admin.RefreshResult) error {
		if m.Error != "" {
			failed = append(failed, errors.New(m.Error))
			if !env.json() {
				return nil
			}
		}
		return show(m)
	})
	if err == nil {
		err = env.end(nil, "")
	}
	if err == nil && len(failed) > 0 {
		err = failed
	}
	return err
}

// refreshedText describes the answer of a registry in one line.
func refreshedText(m admin.RefreshResult) string {
	var parts []string
	if len(m.New) > 0 {
		parts = append(parts, "new: "+firstNames(m.New, 20))
	}
	var gone []string
	for _, version := range m.Gone {
		if slices.Contains(m.Kept, version) {
			version += " (served here before, and therefore listed)"
		}
		gone = append(gone, version)
	}
	if len(gone) > 0 {
		parts = append(parts, "gone: "+firstNames(gone, 20))
	}
	if len(parts) == 0 {
		parts = append(parts, "unchanged, "+count(m.Versions, "version"))
	}
	return m.Module + ": " + strings.Join(parts, "; ") + "\n"
}
