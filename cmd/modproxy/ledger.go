package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
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
	env.addServerFlags(verbs...)
	cmd.AddCommand(append(verbs, newLedgerInitCommand(env))...)
	return cmd
}

func newLedgerShowCommand(env *environment) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "show [MODULE [VERSION]]",
		Short: "Print the records",
		Long: `Print the records in the order in which they were made, one in a line: module,
version, sum, time, source, commit. A record that was replaced by an accepted one is
marked as superseded, and an accepted one has its reason.

` + moduleUsage,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			none, show := true, printer(env, recordText)
			_, err = ask(cmd.Context(), env, admin.LedgerRecords, admin.Query{Name: admin.NameOf(v)}, func(r admin.Record) error {
				none = false
				return show(r)
			})
			if err == nil && none && len(args) > 0 {
				err = fmt.Errorf("the ledger has no record of %s", v)
			}
			return err
		},
	}, `print JSON, one record in a line: {"module": …, "version": …, "sum": …, "counts": …, …}`)
}

// recordText is a record in one line.
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

// sumText is the sum of a package; that of a provider for one platform as lock files have it.
func sumText(n admin.Name, sum modproxy.Sum) string {
	if hash, err := sum.Hash(); err == nil && n.Platform != "" {
		return fmt.Sprintf("zh:%x", hash)
	}
	return string(sum)
}

func signersText(keys modproxy.Keys) string {
	return cmp.Or(strings.Join(keys.All(), " or "), "nobody")
}

func sourceText(s modproxy.Source) string {
	return printable(cmp.Or(s.URL, "-") + " " + cmp.Or(s.Commit, "-"))
}

func newLedgerDriftCommand(env *environment) *cobra.Command {
	var all bool
	var since time.Duration
	cmd := withJSON(&cobra.Command{
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
				q.Since = time.Now().Add(-since)
			}
			open, show := map[admin.Name]bool{}, printer(env, driftText)
			_, err = ask(cmd.Context(), env, admin.LedgerDrift, q, func(d admin.Drift) error {
				if d.Open {
					open[d.Name] = true
				} else if !all {
					return nil
				}
				return show(d)
			})
			if err == nil && len(open) > 0 {
				err = fmt.Errorf("versions that were offered with other content than is recorded: %d", len(open))
			}
			return err
		},
	}, `print JSON, one observation in a line: {"module": …, "version": …, "recorded": …, "offered": …, "open": …, …}`)
	cmd.Flags().BoolVar(&all, "all", false, "also print observations that are no longer open")
	addFlag(cmd, &since, "since", "only what was offered within this `long`, such as 24h or 7d", parseDuration)
	return cmd
}

// driftText is an observation in a few lines, with the command that accepts it.
func driftText(d admin.Drift) string {
	offered, flag := string(d.Offered), ""
	if d.Subdir != "" {
		offered, flag = offered+" directory "+d.Subdir, " --subdir "+clean.ShellQuote(d.Subdir)
	}
	recorded, version := string(d.Recorded), clean.ShellQuote(d.Version)+" --sum "+clean.ShellQuote(string(d.Offered))+flag
	if d.Zips == "" && d.Keys != "" { // of keys
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

// releaseText is what is other in a release, one thing in a line.
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
	return &cobra.Command{
		Use:   "key",
		Short: "Print the key that verifies the ledger",
		Long: `Print the verifier key: the ledger's name, a number and a public key. It is for
"modproxy lock --check --key", for "modproxy ledger import --key", and for every
other client of Go checksum databases. It is not secret, and stays the same as long
as the ledger does.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := ask(cmd.Context(), env, admin.LedgerKey, struct{}{}, nil)
			if err != nil {
				return err
			}
			return env.printf("%s\n", key)
		},
	}
}

func newLedgerAcceptCommand(env *environment) *cobra.Command {
	var sum, subdir, key, reason string
	cmd := &cobra.Command{
		Use:   "accept MODULE VERSION --sum h1:… [--subdir DIR] --reason TEXT | PROVIDER|NAMESPACE/* --key FINGERPRINT --reason TEXT",
		Short: "Accept other content for a version, or another key of a provider, from now on",
		Long: `Add a record: from now on the version has the content of --sum, and the reason is
kept with it for good. What was kept of the version is no longer served; modproxy
fetches it again, and it must match. "modproxy ledger drift" prints what was
offered.

--key says that releases of a provider may also be signed by the key with this
fingerprint. It is the one of the primary key, as the publisher should announce it
elsewhere than in the registry. 'registry.terraform.io/hashicorp/*' accepts the key
for every provider of the namespace whose keys are recorded.

The first record stays in the ledger, and so does this one.`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := env.acceptable(key, args)
			if err != nil {
				return err
			}
			switch {
			case key != "" && (name.Version != "" || sum != "" || subdir != "" || reason == ""):
				return misuse{errors.New("--key goes with a provider and --reason, and nothing else")}
			case key == "" && (sum == "" || reason == "" || name.Version == ""):
				return misuse{hint.With(errors.New("VERSION, --sum and --reason are needed"), `"modproxy ledger drift" prints the sums`)}
			}
			in := admin.Acceptance{Name: name, Sum: modproxy.Sum(sum), Subdir: subdir, Key: key, Reason: reason}
			out, err := ask(cmd.Context(), env, admin.LedgerAccept, in, nil)
			if err != nil {
				return err
			}
			return env.printf("%s", acceptedText(in, out))
		},
	}
	cmd.Flags().StringVar(&sum, "sum", "", "the `sum` of the content: h1: and base64")
	cmd.Flags().StringVar(&subdir, "subdir", "", "the module's `directory` in the package, \".\" for all of it (the one that was offered)")
	cmd.Flags().StringVar(&key, "key", "", "the `fingerprint` of a key that may sign releases of the provider, too")
	cmd.Flags().StringVar(&reason, "reason", "", "one line of `text`: why the change is accepted, and by whom")
	return cmd
}

// acceptable returns what args name: a version, a provider, or for a key also the providers of a namespace.
func (env *environment) acceptable(key string, args []string) (admin.Name, error) {
	namespace, ok := strings.CutSuffix(args[0], "/*")
	if ok && key != "" {
		args = append([]string{namespace + "/any"}, args[1:]...)
	}
	v, err := env.chosen(args...)
	name := admin.NameOf(v)
	if ok && key != "" && err == nil {
		name.Module = v.Host + "/" + v.Namespace + "/*"
	}
	return name, err
}

func acceptedText(in admin.Acceptance, out admin.Accepted) string {
	if in.Key != "" {
		text := ""
		for _, module := range out.Modules {
			text += fmt.Sprintf("Releases of %s may be signed by %s from now on.\n", module, in.Key)
		}
		if len(out.Modules) == 0 {
			text = fmt.Sprintf("Releases of %s may be signed by %s from now on.\n", in.Module, in.Key)
		}
		if !out.Offered {
			text += "No release that it has signed was offered yet.\n"
		}
		return text
	}
	text := fmt.Sprintf("%s %s is %s from now on; it was %s.\n", in.Module, in.Version, in.Sum, out.Before)
	switch {
	case out.Before == in.Sum && out.Subdir != "":
		text = fmt.Sprintf("%s %s is in the directory %s from now on.\n", in.Module, in.Version, out.Subdir)
	case out.Before == in.Sum:
		text = fmt.Sprintf("%s %s is %s already.\n", in.Module, in.Version, in.Sum)
	case !out.Offered:
		text += "No upstream has offered this content yet: until one does, the version cannot be fetched.\n"
	}
	return text
}

func newLedgerExportCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "export FILE",
		Short: "Write the whole ledger to a file",
		Long: `Write all records, and the signed head that proves them and their order. "-" is
standard output. The file does not contain the private key: to keep the ledger's
identity, back up its directory.`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var n int64
			export := func(w io.Writer) (err error) {
				n, err = ask(cmd.Context(), env, admin.LedgerExport, struct{}{}, func(p []byte) error {
					_, err := w.Write(p)
					return err
				})
				return err
			}
			if args[0] == "-" {
				return export(env.rawOut)
			}
			if err := publishPrivate(cmd.Context(), args[0], export); err != nil {
				return err
			}
			return env.printf("%d records and observations are in %s.\n", n, args[0])
		},
	}
}

func newLedgerImportCommand(env *environment) *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Add the records of an export",
		Long: `Add the records of an export that the ledger lacks; "-" is standard input. One of
the two must be the beginning of the other: an export with another record in the
same place is refused, and nothing is added.

An export of another ledger is signed with that ledger's key, which --key must name.
"modproxy ledger key" prints it where that ledger is.`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			from := io.NopCloser(env.stdin)
			if args[0] != "-" {
				if from, err = os.Open(args[0]); err != nil {
					return err
				}
				defer from.Close()
			}
			added, err := ask(cmd.Context(), env, admin.LedgerImport, admin.Import{Keys: keys, From: from}, nil)
			if err != nil {
				return err
			}
			return env.printf("%d records and observations were added.\n", added)
		},
	}
	addFlag(cmd, &keys, "key", "another verifier `key` to accept, besides the ledger's own", func(s string) ([]string, error) {
		_, err := ledger.Verifiers(s)
		return append(keys, s), err
	})
	return cmd
}

func newLedgerInitCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Begin a new ledger if the old one was lost",
		Long: `Begin a new ledger with the kept packages. All other records of the lost ledger are
forgotten: such a version will be what it contains when it is next seen. If you have
a backup or an export, restore or import that instead.

modproxy must not be serving from the data directory.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.alone(cmd.Context(), func(c *config.Config) error {
				records, err := app.BeginLedger(cmd.Context(), c)
				if err != nil {
					return err
				}
				return env.printf("A ledger of %d records was begun.\n", records)
			})
		},
	}
}
