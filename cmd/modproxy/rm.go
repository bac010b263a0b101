package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
)

func newRmCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rm MODULE [VERSION]",
		Short: "Remove the package of one version, or of all versions, of a module",
		Long: `Remove the bytes of a package, unless another version has the same content. The
ledger keeps its record: modproxy fetches the package again when a client asks for
it, and refuses it if it differs ("modproxy ledger accept" accepts other content).

MODULE is a module address; without its hostname, one of the first upstream. Without
VERSION, the packages of all its versions are removed.`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			return env.operate(cmd.Context(), app.Packages, func(api *admin.Client) error {
				return api.Remove(cmd.Context(), v, printer(env.stdout, asJSON, removedText))
			})
		},
	}
	addServerFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one package in a line: {"module": …, "version": …, "there": …, …}`)
	return cmd
}

// removedText is what became of a package, in one line.
func removedText(p admin.Removed) string {
	what := "removed " + sizeText(p.Size)
	switch {
	case !p.There:
		what = "was not kept"
	case len(p.Shared) > 0:
		what = fmt.Sprintf("removed; its %s stay for %s, which has the same content", sizeText(p.Size), strings.Join(p.Shared, ", "))
	}
	return fmt.Sprintf("%s %s: %s; when it is fetched again it must be %s\n", p.Module, p.Version, what, p.Sum)
}
