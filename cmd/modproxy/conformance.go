package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/conformance"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/hint"
)

func newConformanceCommand(env *environment) *cobra.Command {
	var base, tokenFile string
	var modules []string
	cmd := withJSON(&cobra.Command{
		Use:   "conformance --url URL --module ADDRESS…",
		Short: "Try a module registry with what its clients ask",
		Long: `Ask any module registry, or a proxy of one, what Terraform, OpenTofu, Terragrunt,
Renovate, Dependabot, terraform-ls, terraform-mcp-server, Updatecli, Trivy, Checkov,
tfupdate and Infracost ask: with their headers, paths and patience. Read the answers as
each of them does, and tell which one could not work with the registry.

URL is where the registry is. ADDRESS is a module that it has: the newest version is
looked at. The hostname of an address is the name by which clients know the registry,
which is asked by that name at URL, as if the name led there; without a hostname it is
that of URL. With a path in URL, only clients are tried that can be told one.

Plain HTTP stands for https: clients that want https are tried all the same.

A verdict is "pass", "fail", "warn" for what works less well than it could, or "n/a":
the registry does not have what the rule is about and need not have it, which may be
what a tool does not work without.

Exit code 0 means that no rule fails, 1 that one does.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := conformanceOptions(base, modules, tokenFile)
			if err != nil {
				return err
			}
			var all []conformance.Finding
			if err := conformance.Run(cmd.Context(), o, func(f conformance.Finding) error {
				if all = append(all, f); env.json() {
					return env.print(f, "", "")
				}
				return nil
			}); err != nil {
				return err
			}
			if !env.json() {
				if err := env.printf("%s", findingsText(all)); err != nil {
					return err
				}
			}
			return verdict(env, all)
		},
	}, `print JSON, one verdict in a line: {"client": …, "version": …, "module": …, "rule": …, "verdict": …, "seen": …, "wants": …, "file": …}`)
	addFlag(cmd, &base, "url", "`URL` of the registry", parseURL)
	cmd.Flags().StringArrayVar(&modules, "module", nil, "`ADDRESS` of a module that the registry has; may be repeated")
	addFlag(cmd, &tokenFile, "token-file", "`file` with a token, which is shown as each client shows one", parseFile)
	return cmd
}

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

// findingsText is a table of verdicts, and below it what the rules want that did not pass.
func findingsText(all []conformance.Finding) string {
	out, table := newTable()
	modules, wants := map[string]bool{}, ""
	for _, f := range all {
		modules[f.Module] = true
	}
	fmt.Fprintln(out, "CLIENT\tRULE\tVERDICT\tSEEN")
	for _, f := range all {
		seen := f.Seen
		if len(modules) > 1 {
			seen = f.Module + ": " + seen
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", f.Client, f.Rule, f.Verdict, printable(seen))
	}
	var bad []conformance.Finding
	for _, f := range all {
		same := func(g conformance.Finding) bool { return f.Client == g.Client && f.Rule == g.Rule }
		if (f.Verdict == conformance.Fail || f.Verdict == conformance.Warn) && !slices.ContainsFunc(bad, same) {
			bad = append(bad, f)
			wants += fmt.Sprintf("\n%s %s: %s\n  by %s, of %s\n", f.Client, f.Rule, f.Wants, f.File, f.Version)
		}
	}
	return table() + wants
}

// verdict says how many verdicts there were, and fails if a rule does.
func verdict(env *environment, all []conformance.Finding) error {
	n := map[conformance.Verdict]int{}
	for _, f := range all {
		n[f.Verdict]++
	}
	fmt.Fprintf(env.stderr, "%d pass, %d fail, %d warn, %d n/a\n",
		n[conformance.Pass], n[conformance.Fail], n[conformance.Warn], n[conformance.Without])
	if failed := n[conformance.Fail]; failed > 0 {
		first := all[slices.IndexFunc(all, func(f conformance.Finding) bool { return f.Verdict == conformance.Fail })]
		return fmt.Errorf("rules fail %s, the first time %s for %s: %s", count(failed, "time"), first.Rule, first.Client, first.Seen)
	}
	return nil
}
