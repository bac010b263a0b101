package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/conformance"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/hint"
)

func newConformanceCommand(env *environment) *cobra.Command {
	var base, tokenFile string
	var modules []string
	var markdown bool
	cmd := &cobra.Command{
		Use:   "conformance --url URL --module ADDRESS…",
		Short: "Try a module registry with what its clients ask",
		Long:  conformanceHelp,
		Example: `  modproxy conformance --url https://registry.example.com \
    --module acme/network/aws --token-file ci.token`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := conformanceOptions(base, modules, tokenFile)
			if err != nil {
				return err
			}
			if markdown && env.json() {
				return misuse{errors.New("--markdown and --json exclude each other")}
			}
			r := &conformanceReport{environment: env, options: o, markdown: markdown, time: time.Now()}
			return r.run(cmd.Context())
		},
	}
	addFlag(cmd, &base, "url", "`URL` of the registry", parseURL)
	cmd.Flags().StringArrayVar(&modules, "module", nil, "`ADDRESS` of a module that the registry has; may be repeated")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print a page in Markdown: a line for each client, and what does not pass")
	addFlag(cmd, &tokenFile, "token-file", "`file` with a token, which is shown as each client shows one", parseFile)
	return withJSON(cmd, `"client", "version", "module", "rule", "verdict", "seen", "wants", "file"`, `"pass", "fail", "warn", "not_applicable"`)
}

const conformanceHelp = `Ask any module registry, or a proxy of one, what Terraform, OpenTofu,
Terragrunt, Renovate, Dependabot, terraform-ls, terraform-mcp-server,
Updatecli, Trivy, Checkov, tfupdate and Infracost ask: with their headers,
paths and patience. Read the answers as each of them does, and tell which one
could not work with the registry.

URL is where the registry is. ADDRESS is a module that it has: the newest
version is looked at. The hostname of an address is the name by which clients
know the registry, which is asked by that name at URL, as if the name led
there; without a hostname it is that of URL. With a path in URL, only clients
are tried that can be told one.

Plain HTTP is treated as https: clients that need https are tried, too.

A verdict is "pass", "fail", "warn" for what works less well than it could, or
"n/a": the registry does not have what the rule is about and need not have it,
which may be what a tool does not work without.

Verdicts are printed as they come, and at the end a line for each client.

Exit code 0 means that no rule fails, 1 that one does, or that the registry
cannot be reached.`

func conformanceOptions(base string, modules []string, tokenFile string) (o conformance.Options, err error) {
	if base == "" || len(modules) == 0 {
		return o, misuse{hint.With(errors.New("--url and --module are missing"),
			"modproxy conformance --url https://registry.example.com --module acme/network/aws")}
	}
	if o.URL, err = url.Parse(base); err != nil {
		return o, misuse{err}
	}
	for _, address := range modules {
		m, err := hostname.ParseModule(address, o.URL.Host)
		if err != nil {
			return o, misuse{fmt.Errorf("--module: %w", err)}
		}
		o.Modules = append(o.Modules, m)
	}
	if tokenFile != "" {
		o.Token, err = readToken(tokenFile)
	}
	return o, err
}
