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
		Short: "Check a module registry with the requests of its clients",
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
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print a page in Markdown: a line for each client, and the rules that do not pass")
	addFlag(cmd, &tokenFile, "token-file", "`file` with a token, which is sent as each client sends one", parseFile)
	return withJSON(cmd, `"client", "version", "module", "rule", "verdict", "seen", "wants", "file"`, `"pass", "fail", "warn", "not_applicable"`)
}

const conformanceHelp = `Send a module registry, or a proxy of one, the requests of Terraform, OpenTofu,
Terragrunt, Renovate, Dependabot, terraform-ls, terraform-mcp-server,
Updatecli, Trivy, Checkov, tfupdate and Infracost, with their headers, paths
and timeouts. Read the answers as each client does, and name the clients that
cannot work with the registry.

URL is the URL of the registry. ADDRESS is a module in the registry; its newest
version is checked. The hostname in ADDRESS is the name by which clients know
the registry: requests for that name are sent to URL. Without a hostname, it is
the host of URL. If URL has a path, only clients that can be configured with a
path are checked.

Plain HTTP is treated as https: clients that need https are checked, too.

The verdict "pass" means that the client works with the answer, "fail" that it
does not, and "warn" that it works with restrictions. "n/a" means that the
registry does not have an optional part; a tool may not work without it.

Verdicts are printed as they arrive, and at the end a line for each client.

Exit code 0 means that no rule fails; 1 means that a rule fails, or that the
registry cannot be reached.`

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
