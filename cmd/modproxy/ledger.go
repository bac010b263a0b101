package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
)

func newLedgerCommand(env *environment) *cobra.Command {
	cmd := newGroup("ledger", "Show and manage the record of what each version contained",
		`The ledger records what every version contained when it was first fetched. Other
content is refused, and kept as an observation ("drift"). The ledger is append-only:
"accept" adds a record that counts from then on.

All verbs but "init" work whether or not modproxy serves from the same data
directory, and with --server on a proxy elsewhere.`)
	verbs := []*cobra.Command{
		newLedgerShowCommand(env), newLedgerDriftCommand(env), newLedgerAcceptCommand(env), newLedgerKeyCommand(env),
		newLedgerExportCommand(env), newLedgerImportCommand(env),
	}
	addServerFlags(verbs...)
	cmd.AddCommand(append(verbs, newLedgerInitCommand(env))...)
	return cmd
}

func newLedgerShowCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [MODULE [VERSION]]",
		Short: "Print the records",
		Long: `Print the records in the order in which they were made, one in a line: module,
version, sum, time, source, commit. A record that was replaced by an accepted one is
marked as superseded, and an accepted one has its reason.

MODULE is a module address; without its hostname, one of the first upstream.`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			none, show := true, printer(env.stdout, asJSON, recordText)
			err = env.operate(cmd.Context(), app.LedgerNow, func(api *admin.Client) error {
				return api.Records(cmd.Context(), admin.Query{Name: admin.NameOf(v)}, func(r admin.Record) error {
					none = false
					return show(r)
				})
			})
			if err == nil && none && len(args) > 0 {
				err = fmt.Errorf("the ledger has no record of %s", v)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one record in a line: {"module": …, "version": …, "sum": …, "counts": …, …}`)
	return cmd
}

// recordText is a record in one line.
func recordText(r admin.Record) string {
	s := fmt.Sprintf("%s %s %s %s %s", r.Module, r.Version, r.Sum, r.Time.UTC().Format(time.RFC3339), sourceText(r.Source))
	if r.Subdir != "" && r.Subdir != "." {
		s += " directory " + r.Subdir
	}
	if r.Reason != "" {
		s += " accepted: " + r.Reason
	}
	if !r.Counts {
		s += " (superseded)"
	}
	return s + "\n"
}

func sourceText(s modproxy.Source) string {
	switch {
	case s.URL == "":
		return "- -"
	case s.Commit == "":
		return s.URL + " -"
	}
	return s.URL + " " + s.Commit
}

func newLedgerDriftCommand(env *environment) *cobra.Command {
	var asJSON, all bool
	var since duration
	cmd := &cobra.Command{
		Use:   "drift [MODULE [VERSION]]",
		Short: "Print content that was offered but differs from the record",
		Long: `Print the content that upstreams offered for versions and that was refused because
it differs from the record. The record counts until other content is accepted.
An observation stays open until then, even if upstream reverts the change. --since
leaves out old observations.

Exit code 1 means that an observation is open, so that a job can watch it.`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			q := admin.Query{Name: admin.NameOf(v)}
			if since > 0 {
				q.Since = time.Now().Add(-time.Duration(since))
			}
			open, show := map[admin.Name]bool{}, printer(env.stdout, asJSON, driftText)
			err = env.operate(cmd.Context(), app.LedgerNow, func(api *admin.Client) error {
				return api.Drift(cmd.Context(), q, func(d admin.Drift) error {
					if d.Open {
						open[d.Name] = true
					}
					if !d.Open && !all {
						return nil
					}
					return show(d)
				})
			})
			if err == nil && len(open) > 0 {
				err = fmt.Errorf("versions that were offered with other content than is recorded: %d", len(open))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one observation in a line: {"module": …, "version": …, "recorded": …, "offered": …, "open": …, …}`)
	cmd.Flags().BoolVar(&all, "all", false, "also print observations that are no longer open")
	cmd.Flags().Var(&since, "since", "only what was offered within this `long`, such as 24h or 7d")
	return cmd
}

// driftText is an observation in a few lines, with the command that accepts it.
func driftText(d admin.Drift) string {
	offered, flag := string(d.Offered), ""
	if d.Subdir != "" {
		offered, flag = offered+" directory "+d.Subdir, " --subdir "+shellQuote(d.Subdir)
	}
	what := fmt.Sprintf("to accept:  modproxy ledger accept %s %s --sum %s%s --reason …",
		shellQuote(d.Module), shellQuote(d.Version), shellQuote(string(d.Offered)), flag)
	if !d.Open {
		what = "not open:   another record counts by now"
	}
	return fmt.Sprintf("%s %s\n  recorded:   %s\n  offered:    %s\n              %s from %s\n  %s\n",
		d.Module, d.Version, d.Recorded, offered, d.Time.UTC().Format(time.RFC3339), sourceText(d.Source), what)
}

func newLedgerKeyCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "key",
		Short: "Print the key that verifies the ledger",
		Long: `Print the verifier key: the ledger's name, a number and a public key. It is for
"modproxy lock --check --key", for "modproxy ledger import --key", and for every
other client of Go checksum databases. It is not secret, and stays the same as long
as the ledger does.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.operate(cmd.Context(), app.LedgerNow, func(api *admin.Client) error {
				key, err := api.VerifierKey(cmd.Context())
				if err == nil {
					_, err = fmt.Fprintln(env.stdout, key)
				}
				return err
			})
		},
	}
}
