package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
)

func newRebuildCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make a new index, if the old one is lost or damaged",
		Long: `Make a new index from the copies of the package records beside it, and from whatever
is whole in the old index, which may be missing, empty, cut short, damaged or an
older copy. The old index is kept in the directory quarantine. No record in either
of them is lost, and the ledger stays unchanged.

modproxy must not be serving from the data directory.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			return env.alone(cmd.Context(), c, func() error { return env.rebuild(cmd.Context(), c, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print one JSON document: {"problem": …, "packages": …, "found": …, "damaged": […], …}`)
	return cmd
}

func (env *environment) rebuild(ctx context.Context, c *config.Config, asJSON bool) error {
	out, err := app.Rebuild(ctx, c)
	if err != nil {
		return err
	}
	if asJSON {
		return printDocument(env.stdout, out)
	}
	problem, aside := out.Problem, ""
	if problem == "" {
		problem = "modproxy could open the old index"
	}
	if out.Aside != "" {
		aside = "; it is kept as " + out.Aside
	}
	fmt.Fprintf(env.stdout, "%s%s\n", problem, aside)
	for _, name := range out.Damaged {
		fmt.Fprintf(env.stdout, "damaged, and set aside: %s\n", name)
	}
	for _, conflict := range out.Conflicts {
		fmt.Fprintf(env.stdout, "differs: %s\n", conflict)
	}
	_, err = fmt.Fprintf(env.stdout, "the new index has %d packages, of which %d were only in the old one, and %d lists of versions; "+
		"%d packages are not there and are fetched again, %d have no record\n",
		out.Packages, out.Found, out.Versions, out.Absent, out.Orphans)
	return err
}
