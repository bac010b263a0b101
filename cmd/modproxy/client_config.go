package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
)

// tools are the clients that --tool can name.
var tools = []string{"terraform", "tofu"}

func newClientConfigCommand(env *environment) *cobra.Command {
	var base, tool string
	cmd := &cobra.Command{
		Use:   "client-config",
		Short: "Print the CLI configuration for Terraform and OpenTofu",
		Long: `Print the host blocks that make Terraform and OpenTofu ask this proxy for the
modules and providers of every upstream. Source addresses stay unchanged.`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if tool != "" && !slices.Contains(tools, tool) {
				return misuse{hint.With(fmt.Errorf("unknown tool %.80q", tool), hint.DidYouMean(tool, tools, "want terraform or tofu"))}
			}
			if base != "" {
				if err := config.CheckURL(base); err != nil {
					return misuse{fmt.Errorf("--url: %w", err)}
				}
			}
			c, err := env.load()
			if err != nil {
				return err
			}
			if base == "" {
				if base, err = c.BaseURL(); err != nil {
					return err
				}
			}
			_, err = fmt.Fprint(env.stdout, app.ClientConfig(base, tool, c))
			return err
		},
	}
	cmd.Flags().StringVar(&base, "url", "", "`URL` under which clients see this proxy (public_url, else listen)")
	cmd.Flags().StringVar(&tool, "tool", "", "the client: `terraform or tofu` (default both)")
	return cmd
}
