package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/versionname"
)

func newLedgerCommand(env *environment) *cobra.Command {
	return newGroup("ledger", "Show and manage the recorded content of versions",
		`The ledger records the content of every version at the first download. Other
content is refused, and recorded as an observation ("drift"). The ledger is
append-only: "accept" adds a record, which is then in force.

All verbs but "init" work whether or not modproxy serves from the same data
directory, and with --server on a proxy elsewhere.`,
		newLedgerShowCommand(env), newLedgerDriftCommand(env), newLedgerAcceptCommand(env), newLedgerKeyCommand(env),
		newLedgerExportCommand(env), newLedgerImportCommand(env), newLedgerInitCommand(env))
}

func newLedgerShowCommand(env *environment) *cobra.Command {
	return withJSON(env.withServer(&cobra.Command{
		Use:   "show [MODULE [VERSION]]",
		Short: "Print the records of the ledger",
		Long: `Print the records in the order in which they were made, one a line: module,
version, sum, time, source, commit. A record that an accepted record replaced is
marked as superseded. An accepted record has its reason.

` + moduleUsage,
		Example: `  modproxy ledger show
  modproxy ledger show acme/vpc/aws 1.0.0 --json`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			none, show := true, printer(env, recordText)
			_, err = ask(cmd.Context(), env, admin.LedgerRecords, admin.LedgerQuery{Name: versionname.Of(v)}, func(r admin.Record) error {
				none = false
				return show(r)
			})
			switch {
			case err != nil:
				return err
			case none && len(args) > 0:
				return fmt.Errorf("the ledger has no record of %s", v)
			}
			return env.end(nil, "")
		},
	}), `"module", "version", "platform", "sum", "time", "source", "counts", …`, "")
}

// recordText formats a record as one line.
func recordText(r admin.Record) string {
	s := fmt.Sprintf("%s %s %s %s", r.Shown(), sumText(r.Name, r.Sum), r.Time.UTC().Format(time.RFC3339), sourceText(r.Source))
	for _, hash := range r.Hashes.All() {
		s += " " + string(hash)
	}
	if r.Zips != "" || r.Keys != "" {
		s += " signed by " + signersText(r.Keys)
	}
	if r.Subdir != "" && r.Subdir != "." {
		s += " directory " + r.Subdir
	}
	if r.Reason != "" {
		s += " accepted: " + r.Reason
	}
	if !r.Counts {
		s += " (superseded)"
	}
	return printable(s) + "\n"
}

// sumText formats the sum of a package. For a provider's package it has the form of lock files.
func sumText(n versionname.Name, sum modproxy.Sum) string {
	if hash, err := sum.Hash(); err == nil && n.Platform != "" {
		return fmt.Sprintf("zh:%x", hash)
	}
	return string(sum)
}

func signersText(keys modproxy.Keys) string {
	return cmp.Or(strings.Join(keys.All(), " or "), "no key")
}

func sourceText(s modproxy.Source) string {
	text := cmp.Or(s.URL, "-") + " " + cmp.Or(s.Commit, "-")
	if s.Mirror != "" {
		text += " mirror " + s.Mirror
	}
	return printable(text)
}

func newLedgerDriftCommand(env *environment) *cobra.Command {
	var all bool
	var since time.Duration
	cmd := env.withServer(&cobra.Command{
		Use:   "drift [MODULE [VERSION]]",
		Short: "Print offered content that differs from the record",
		Long: `Print the content of versions that upstreams offered and modproxy refused,
because it differs from the record. The record is in force until other content
is accepted. An observation stays open until then, even if upstream reverts the
change. --since leaves out old observations.

Exit code 1 means that an observation is open, so that a job can monitor drift.`,
		Example: `  modproxy ledger drift
  modproxy ledger drift --since 7d --json`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			q := admin.LedgerQuery{Name: versionname.Of(v)}
			if since > 0 {
				q.Since = time.Now().Add(-since)
			}
			return env.printDrift(cmd.Context(), q, all)
		},
	})
	cmd.Flags().BoolVar(&all, "all", false, "also print observations that are closed")
	addFlag(cmd, &since, "since", "print only content that was offered within this `duration`, such as 24h or 7d", parseDuration)
	return withJSON(cmd, `"module", "version", "recorded", "offered", "open", …`, "")
}

// printDrift prints open observations, or all of them. It returns an error if one is open.
func (env *environment) printDrift(ctx context.Context, q admin.LedgerQuery, all bool) error {
	open, show := map[versionname.Name]bool{}, printer(env, driftText)
	_, err := ask(ctx, env, admin.LedgerDrift, q, func(d admin.Drift) error {
		if d.Open {
			open[d.Name] = true
		} else if !all {
			return nil
		}
		return show(d)
	})
	if err == nil {
		err = env.end(nil, "")
	}
	if err == nil && len(open) > 0 {
		err = fmt.Errorf("versions that were offered with other content than is recorded: %d", len(open))
	}
	return err
}

// driftText describes an observation in a few lines, with the command that accepts it.
func driftText(d admin.Drift) string {
	offered, flag := string(d.Offered), ""
	if d.Subdir != "" {
		offered, flag = offered+" directory "+d.Subdir, " --subdir "+clean.ShellQuote(d.Subdir)
	}
	recorded, version := string(d.Recorded), clean.ShellQuote(d.Version)+" --sum "+clean.ShellQuote(string(d.Offered))+flag
	if d.Zips == "" && d.Keys != "" { // only the keys differ
		recorded, offered, version = "signed by "+signersText(d.Was.Keys), "signed by "+signersText(d.Keys), "--key "+clean.ShellQuote(d.Keys.All()[0])
	}
	if d.As != "" {
		recorded += " as " + d.As
	}
	what := fmt.Sprintf("to accept:  modproxy ledger accept %s %s --reason …", clean.ShellQuote(d.Module), version)
	if m, err := d.Name.Parse(""); err == nil && d.Zips == "" && d.Keys != "" {
		what += fmt.Sprintf("\n  all of %s:  modproxy ledger accept %s %s --reason …", m.Namespace, clean.ShellQuote(m.Host+"/"+m.Namespace+"/*"), version)
	}
	if !d.Open {
		what = "not open:   another record counts by now"
		if d.Zips == "" && d.Keys != "" {
			recorded = "signed by others"
		}
	}
	return fmt.Sprintf("%s\n  recorded:   %s\n  offered:    %s\n              %s from %s\n%s  %s\n",
		d.Shown(), recorded, offered, d.Time.UTC().Format(time.RFC3339), strings.TrimSuffix(sourceText(d.Source), " -"), releaseText(d), what)
}

// releaseText describes the changes of a release, one in a line.
func releaseText(d admin.Drift) string {
	var b strings.Builder
	was, _ := d.Was.Zips.All()
	is, _ := d.Zips.All()
	if d.Zips == "" || !d.Open {
		return ""
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	byName := func(a, b modproxy.Platform) int { return strings.Compare(a.String(), b.String()) }
	for _, p := range slices.SortedFunc(maps.Keys(all), byName) {
		if was[p] != is[p] {
			fmt.Fprintf(&b, "  %-24s%s before, %s offered\n", p.String()+":", digestText(was[p]), digestText(is[p]))
		}
	}
	if d.Keys != d.Was.Keys {
		fmt.Fprintf(&b, "  signed by:  %s before, %s now\n", signersText(d.Was.Keys), signersText(d.Keys))
	}
	return b.String()
}

func digestText(d modproxy.Digest) string {
	if d.IsZero() {
		return "none"
	}
	return d.String()
}

func newLedgerKeyCommand(env *environment) *cobra.Command {
	return withJSON(env.withServer(&cobra.Command{
		Use:   "key",
		Short: "Print the key that verifies the ledger",
		Long: `Print the verifier key: the ledger's name, a number and a public key. It is for
"modproxy lock --check --key", for "modproxy ledger import --key", and for
every other client of Go checksum databases. It is not secret, and never changes
for the same ledger.`,
		Example: `  modproxy ledger key
  modproxy ledger key --server https://modules.example.com`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := ask(cmd.Context(), env, admin.LedgerKey, struct{}{}, nil)
			if err != nil {
				return err
			}
			return env.print(map[string]string{"key": key}, key+"\n")
		},
	}), `"key"`, "")
}
