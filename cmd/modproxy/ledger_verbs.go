package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
)

func newLedgerCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Show and manage the record of what each version contained",
		Long: `The ledger records what every version contained when it was first fetched. Other
content is refused, and kept as an observation ("drift"). The ledger is append-only:
"accept" adds a record that counts from then on.

All verbs work whether or not modproxy serves from the same data directory.`,
		Args: unknownVerb,
		RunE: func(*cobra.Command, []string) error {
			return misuse{hint.With(errors.New("no verb given"), `"modproxy ledger --help" lists the verbs`)}
		},
	}
	cmd.AddCommand(
		newLedgerShowCommand(env), newLedgerDriftCommand(env), newLedgerAcceptCommand(env), newLedgerKeyCommand(env),
		newLedgerExportCommand(env), newLedgerImportCommand(env), newLedgerInitCommand(env),
	)
	return cmd
}

// settings reads the configuration, and does not ask that it is in order: what
// serves may have had other flags.
func (env *environment) settings() (*config.Config, error) {
	c, _, err := config.Read(env.flags.file(), env.variables, env.flags.changed())
	return c, err
}

// readLedger calls f with the ledger as it is now, whoever has it open.
func (env *environment) readLedger(f func(c *config.Config, book *ledger.Log) error) (err error) {
	c, err := env.settings()
	if err != nil {
		return err
	}
	if err := haveLedger(c); err != nil {
		return err
	}
	book, err := ledger.OpenReadOnly(c.LedgerDir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	return f(c, book)
}

// choose reads MODULE and VERSION where they are given.
func choose(c *config.Config, args []string) (q query, err error) {
	if len(args) > 0 {
		if q.module, err = parseModule(args[0], defaultHost(c)); err != nil {
			return q, misuse{err}
		}
	}
	if len(args) > 1 {
		if q.version, err = modproxy.CanonicalVersion(args[1]); err != nil {
			return q, misuse{err}
		}
	}
	return q, nil
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
		RunE: func(_ *cobra.Command, args []string) error {
			return env.readLedger(func(c *config.Config, book *ledger.Log) error {
				q, err := choose(c, args)
				if err != nil {
					return err
				}
				list, err := recordsOf(book, q)
				if err != nil {
					return err
				}
				if len(list) == 0 && len(args) > 0 {
					return fmt.Errorf("the ledger has no record of %s", strings.TrimSpace(q.module.String()+" "+q.version))
				}
				if asJSON {
					return printLines(env.stdout, list)
				}
				for _, r := range list {
					if _, err := fmt.Fprintln(env.stdout, r); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one record in a line: {"module": …, "version": …, "sum": …, "counts": …, …}`)
	return cmd
}

func newLedgerDriftCommand(env *environment) *cobra.Command {
	var asJSON, all bool
	var since duration
	cmd := &cobra.Command{
		Use:   "drift [MODULE [VERSION]]",
		Short: "Print content that was offered but differs from the record",
		Long: `Print the content that upstreams offered for versions and that was refused because
it differs from the record. The record counts until somebody accepts other content.
An observation stays open until then, even if upstream reverts the change. --since
leaves out old observations.

Exit code 1 means that an observation is open, so that a job can watch it.`,
		Args: arguments(0, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return env.readLedger(func(c *config.Config, book *ledger.Log) error {
				q, err := choose(c, args)
				if err != nil {
					return err
				}
				if since > 0 {
					q.since = time.Now().Add(-time.Duration(since))
				}
				list, err := driftOf(book, q)
				if err != nil {
					return err
				}
				return env.printDrift(list, all, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one observation in a line: {"module": …, "version": …, "recorded": …, "offered": …, "open": …, …}`)
	cmd.Flags().BoolVar(&all, "all", false, "also print observations that are no longer open")
	cmd.Flags().Var(&since, "since", "only what was offered within this `long`, such as 24h or 7d")
	return cmd
}

// printDrift prints what is open, or all. Its error says that something is open.
func (env *environment) printDrift(list []ledgerDrift, all, asJSON bool) error {
	shown, versions := []ledgerDrift(nil), map[[2]string]bool{}
	for _, d := range list {
		if d.Open {
			versions[[2]string{d.Module, d.Version}] = true
		}
		if d.Open || all {
			shown = append(shown, d)
		}
	}
	if asJSON {
		if err := printLines(env.stdout, shown); err != nil {
			return err
		}
	} else {
		for _, d := range shown {
			if _, err := fmt.Fprint(env.stdout, d); err != nil {
				return err
			}
		}
	}
	if len(versions) == 0 {
		return nil
	}
	return fmt.Errorf("versions that were offered with other content than is recorded: %d", len(versions))
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
		RunE: func(*cobra.Command, []string) error {
			return env.readLedger(func(_ *config.Config, book *ledger.Log) error {
				_, err := fmt.Fprintln(env.stdout, book.VerifierKey())
				return err
			})
		},
	}
}

// printLines prints a list as JSON, one element in a line.
func printLines[T any](w io.Writer, list []T) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, v := range list {
		if err := out.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// printJSON prints one thing as one JSON document.
func (env *environment) printJSON(v any) error {
	out := json.NewEncoder(env.stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(v)
}

// String is the record in one line.
func (r ledgerRecord) String() string {
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
	return s
}

// String is the observation in a few lines.
func (d ledgerDrift) String() string {
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

func sourceText(s modproxy.Source) string {
	switch {
	case s.URL == "":
		return "- -"
	case s.Commit == "":
		return s.URL + " -"
	}
	return s.URL + " " + s.Commit
}
