package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/internal/hint"
)

func newConfigCommand(env *environment) *cobra.Command {
	cmd := withJSON(&cobra.Command{
		Use:   "config",
		Short: "Print the configuration in force, and where each value comes from",
		Long: `Print every key with the value in force and where it was set: the file with its
line, the variable or the flag. Secrets are never printed. Apart from them, the
output is itself a configuration file.`,
		Args: unknownVerb,
		RunE: func(*cobra.Command, []string) error {
			c, err := env.load()
			if err != nil {
				return err
			}
			if !env.json() {
				return c.Print(env.stdout)
			}
			all, err := c.Describe()
			if err != nil {
				return err
			}
			return env.print(all, "  ", "")
		},
	}, `print one JSON document: {"key": {"value": …, "source": …}, …}`)
	cmd.AddCommand(&cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: `Read the configuration as "modproxy serve" would, including the files with secrets,
with rules of the policy and with locks, and what is to be mirrored, and print
everything that is wrong with it. Nothing is connected to.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.load()
			if err != nil {
				return err
			}
			rules, err := app.PolicyOf(c)
			if err != nil {
				return err
			}
			if err := app.CheckKeys(c); err != nil {
				return err
			}
			if err := app.CheckMirrors(c); err != nil {
				return err
			}
			expires, err := app.CheckCertificate(c)
			if err != nil {
				return err
			}
			if err := git.Installed(cmd.Context()); err != nil && !c.Offline {
				fmt.Fprintf(env.stderr, "warning: nothing can be fetched from git repositories: %v\n", err)
			}
			env.remark(c.Deprecated(), expires, app.NeverHold(c, rules), app.NoProviders(rules))
			return env.printf("The configuration is in order.\n")
		},
	})
	return cmd
}

// tools are the clients that --tool can name, and protocols how --providers says that they get providers.
var (
	tools     = []string{"terraform", "tofu"}
	protocols = []string{"registry", "mirror"}
)

func newClientConfigCommand(env *environment) *cobra.Command {
	var base, tool, providers string
	cmd := &cobra.Command{
		Use:   "client-config",
		Short: "Print the CLI configuration for Terraform and OpenTofu",
		Long: `Print the host blocks that make Terraform and OpenTofu ask this proxy for the
modules and providers of every upstream. Source addresses stay unchanged.
With --providers mirror, a network mirror stands for the upstreams where providers
are installed; it must be https. Where people log in at an issuer, it is asked where.`,
		RunE: func(*cobra.Command, []string) error {
			if tool != "" && !slices.Contains(tools, tool) {
				return misuse{hint.With(fmt.Errorf("unknown tool %.80q", tool), hint.DidYouMean(tool, tools, "want terraform or tofu"))}
			}
			if !slices.Contains(protocols, providers) {
				why := fmt.Errorf("--providers %.80q is unknown", providers)
				return misuse{hint.With(why, hint.DidYouMean(providers, protocols, "want registry or mirror"))}
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
			mirror := providers == "mirror"
			if mirror && !strings.HasPrefix(base, "https://") {
				return fmt.Errorf("clients want https for a network mirror, and %s is not: name another --url, or set public_url", base)
			}
			login, err := app.LoginOf(c)
			if err != nil {
				fmt.Fprintf(env.stderr, "warning: nobody can log in with these host blocks: %v\n", err)
			}
			return env.printf("%s", app.ClientConfig(base, tool, mirror, c, login))
		},
	}
	addFlag(cmd, &base, "url", "`URL` under which clients see this proxy (public_url, else listen)", parseURL)
	cmd.Flags().StringVar(&providers, "providers", "registry", "how clients get providers: by the `registry or mirror` protocol")
	cmd.Flags().StringVar(&tool, "tool", "", "the client: `terraform or tofu` (default both)")
	return cmd
}
