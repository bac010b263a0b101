package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
)

func newRefreshCommand(env *environment) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "refresh MODULE… | --all",
		Short: "Ask registries now which versions modules have",
		Long: `Ask upstream which versions a module has, even if the kept list is fresh, and print
in one line what is new and what is gone. modproxy also forgets that a version was
absent or could not be fetched, so that a version published a moment ago can be
installed.

A version that is gone upstream stays listed if its package is kept.

MODULE is a module address; without its hostname, one of the first upstream. --all
stands for every module of which a package is or was kept.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return misuse{errors.New("want the addresses of modules, or --all")}
			}
			in := admin.Refresh{All: all}
			for _, arg := range args {
				v, err := env.chosen(arg)
				if err != nil {
					return err
				}
				in.Modules = append(in.Modules, v.Module.String())
			}
			var failed problems
			show := printer(env.stdout, asJSON, refreshedText)
			err := env.operate(cmd.Context(), app.Registries, func(api *admin.Client) error {
				return api.Refresh(cmd.Context(), in, func(m admin.Refreshed) error {
					if m.Error != "" {
						failed = append(failed, errors.New(m.Error))
						if !asJSON {
							return nil
						}
					}
					return show(m)
				})
			})
			if err == nil && len(failed) > 0 {
				err = failed
			}
			return err
		},
	}
	addServerFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every module of which a package is or was kept")
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one module in a line: {"module": …, "versions": …, "new": […], "gone": […], "kept": […]}`)
	return cmd
}

// maxShown is how many versions are listed by name.
const maxShown = 20

// refreshedText says in one line what a registry answered.
func refreshedText(m admin.Refreshed) string {
	name := func(list []string) string {
		more := ""
		if n := len(list) - maxShown; n > 0 {
			list, more = list[:maxShown], fmt.Sprintf(" and %d more", n)
		}
		return strings.Join(list, ", ") + more
	}
	var parts []string
	if len(m.New) > 0 {
		parts = append(parts, "new: "+name(m.New))
	}
	var gone []string
	for _, version := range m.Gone {
		if slices.Contains(m.Kept, version) {
			version += " (kept, and therefore listed)"
		}
		gone = append(gone, version)
	}
	if len(gone) > 0 {
		parts = append(parts, "gone: "+name(gone))
	}
	if len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("unchanged, %d versions", m.Versions))
	}
	return m.Module + ": " + strings.Join(parts, "; ") + "\n"
}
