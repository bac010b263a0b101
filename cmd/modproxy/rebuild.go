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
		Long: `Make a new index from the packages, which are read and checked, and from the ledger,
which says what versions they are of. Lists of versions are taken over from the old
index as far as it can be read. The old index is kept in the directory quarantine,
and so are damaged packages. The ledger stays unchanged.

modproxy must not be serving from the data directory.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.alone(cmd.Context(), func(c *config.Config) error { return env.rebuild(cmd.Context(), c, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print one JSON document: {"problem": …, "kept": …, "versions": …, "damaged": […], …}`)
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
	for _, damage := range out.Damaged {
		fmt.Fprint(env.stdout, damageText(&damage))
	}
	_, err = fmt.Fprintf(env.stdout, "the new index has %d packages and %d lists of versions; %d packages are of no version in the ledger\n",
		out.Kept.Blobs, out.Lists, out.Orphans.Blobs)
	return err
}
