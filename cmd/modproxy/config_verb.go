package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/internal/hint"
)

func newConfigCommand(env *environment) *cobra.Command {
	cmd := withKeys(&cobra.Command{
		Use:   "config",
		Short: "Print the configuration and the sources of its values",
		Long: `Print every key with the value that "modproxy serve" would use and where it was
set: the file with its line, the variable or the flag. Secrets are never
printed. Apart from them, the output is itself a configuration file. "modproxy
config show" prints the configuration of a running modproxy.`,
		Example: `  modproxy config
  modproxy config --config modproxy.yaml --json`,
		Args: unknownVerb,
		RunE: func(*cobra.Command, []string) error { return env.printConfig() },
	}, "*")
	cmd.AddCommand(newConfigCheckCommand(env), newConfigInitCommand(env), newConfigReloadCommand(env), newConfigSchemaCommand(env),
		newConfigShowCommand(env))
	return withJSON(cmd, `"key", "value", "source"`, "")
}

func (env *environment) printConfig() error {
	c, err := env.load()
	if err != nil {
		return err
	}
	all, err := c.Describe()
	if err != nil {
		return err
	}
	return env.printKeys(all)
}

// printKeys prints the keys of a configuration.
func (env *environment) printKeys(all []config.Described) error {
	if !env.json() {
		return config.Print(env.stdout, all)
	}
	for _, k := range all {
		if err := env.item(k, ""); err != nil {
			return err
		}
	}
	return env.end(nil, "")
}

func newConfigCheckCommand(env *environment) *cobra.Command {
	return withJSON(withKeys(&cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: `Read the configuration as "modproxy serve" would, and print every mistake in it.
This includes the files with secrets, rules of the policy and locks, and the
files and directories to mirror. No connection is opened.`,
		Example: `  modproxy config check
  modproxy config check --config modproxy.yaml`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return env.checkConfig(cmd.Context()) },
	}, "*"), `"problem", "hints"`, "")
}

// problem is a mistake in the configuration in JSON output.
type problem struct {
	Text  string   `json:"problem"`
	Hints []string `json:"hints,omitempty"`
}

// checkConfig prints all mistakes in the configuration.
func (env *environment) checkConfig(ctx context.Context) error {
	c, wrong := config.Check(env.configFile(), env.variables, env.keyFlags())
	more, remarks := app.Problems(c)
	if wrong = append(wrong, more...); len(wrong) > 0 {
		return env.printProblems(wrong)
	}
	if err := git.Installed(ctx); err != nil && !c.Offline {
		what := "nothing can be fetched from git repositories"
		if errors.Is(err, git.ErrSlow) { // packages may come all the same
			what = "the git program was not checked"
		}
		fmt.Fprintf(env.stderr, "warning: %s: %v\n", what, err)
	}
	env.remark(remarks...)
	return env.end(nil, "The configuration is in order.\n")
}

// printProblems prints mistakes with --json, and returns them.
func (env *environment) printProblems(wrong config.Error) error {
	if !env.json() {
		return wrong
	}
	for _, err := range wrong {
		if err := env.item(problem{err.Error(), hint.Of(err)}, ""); err != nil {
			return err
		}
	}
	if err := env.end(nil, ""); err != nil {
		return err
	}
	return wrong
}

// tools are the values of --tool, and protocols those of --providers.
var (
	tools     = []string{"terraform", "tofu"}
	protocols = []string{"registry", "mirror"}
)

func newClientConfigCommand(env *environment) *cobra.Command {
	var base, tool, providers string
	cmd := withKeys(&cobra.Command{
		Use:   "client-config",
		Short: "Print the CLI configuration for Terraform and OpenTofu",
		Long: `Print the host blocks with which Terraform and OpenTofu request the modules and
providers of every upstream from this proxy. Source addresses stay unchanged.
With --providers mirror, clients install providers from a network mirror instead
of the upstreams; it must use https. If users log in at an issuer, modproxy
requests the issuer's addresses from it.`,
		Example: `  modproxy client-config > ~/.terraformrc
  modproxy client-config --tool tofu --url https://modules.example.com`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if tool != "" && !slices.Contains(tools, tool) {
				return misuse{hint.With(fmt.Errorf("unknown tool %.80q", tool), hint.DidYouMean(tool, tools, "want terraform or tofu"))}
			}
			if !slices.Contains(protocols, providers) {
				why := fmt.Errorf("--providers %.80q is unknown", providers)
				return misuse{hint.With(why, hint.DidYouMean(providers, protocols, "want registry or mirror"))}
			}
			return env.printClientConfig(base, tool, providers == "mirror")
		},
	}, "listen", "public-url", "anonymous", "tls-cert", "tls-key")
	addFlag(cmd, &base, "url", "`URL` that clients use for this proxy (public_url, else listen)", parseURL)
	cmd.Flags().StringVar(&providers, "providers", "registry", "`protocol` by which clients install providers: registry or mirror")
	cmd.Flags().StringVar(&tool, "tool", "", "print the blocks for this `client`: terraform or tofu (default both)")
	return withJSON(cmd, `"tool", "text"`, "")
}

// printClientConfig prints the configuration for a tool, or for both tools if it is empty.
func (env *environment) printClientConfig(base, tool string, mirror bool) error {
	c, err := env.load()
	if err != nil {
		return err
	}
	if base == "" {
		if base, err = c.BaseURL(); err != nil {
			return err
		}
	}
	if mirror && !strings.HasPrefix(base, "https://") {
		return fmt.Errorf("clients want https for a network mirror, and %s is not: name another --url, or set public_url", base)
	}
	login, err := app.LoginOf(c)
	if err != nil {
		fmt.Fprintf(env.stderr, "warning: users cannot log in with these host blocks: %v\n", err)
	}
	for _, one := range tools {
		if tool != "" && tool != one {
			continue
		}
		text := map[string]string{"tool": one, "text": app.ClientConfig(base, one, mirror, c, login)}
		if err := env.item(text, ""); err != nil {
			return err
		}
	}
	return env.end(nil, app.ClientConfig(base, tool, mirror, c, login))
}
