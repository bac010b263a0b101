package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
)

func newExportCommand(env *environment) *cobra.Command {
	var since string
	var locks, keys, groups []string
	var list bool
	cmd := withJSON(&cobra.Command{
		Use:   "export [ADDRESS[@CONSTRAINT]…] [--lock FILE] [--since BUNDLE] FILE | --list FILE",
		Short: "Write packages and their records to a file for another proxy",
		Long: `Write a bundle: packages that are kept, with their records in the ledger and what is
needed to serve them, signed with the key of the ledger. "modproxy import" takes it
where there is no network, and "modproxy serve --bundle" serves it. "-" is standard
output. What the policy refuses a client in no group, or in those that --as names, is
not exported, and is named. No registry is asked.

Without ADDRESS and --lock, everything that is kept is exported. ADDRESS is a module
address; without its hostname, one of the first upstream. CONSTRAINT selects versions
as in a module call. --lock selects what a modproxy.lock lists.

With --since, only what BUNDLE and those before it do not have is exported; whoever
imports the new one needs those first. Of BUNDLE only the beginning is read, the
manifest and the index.

--list prints what is in a bundle. It checks all of it, and changes nothing.

Exit code 1 means that something that ADDRESS or --lock names is not in the bundle.`,
		Args: arguments(1, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			file, selection := args[len(args)-1], args[:len(args)-1]
			if list {
				if len(selection) > 0 || since != "" || len(locks) > 0 {
					return misuse{errors.New("--list takes a bundle and nothing else")}
				}
				return env.listBundle(file, keys)
			}
			in := admin.Export{Groups: groups}
			for _, arg := range selection {
				call, err := env.wanted(arg)
				if err != nil {
					return misuse{err}
				}
				in.Wanted = append(in.Wanted, admin.Wanted{Module: call.Source, Versions: call.Version})
			}
			for _, name := range locks {
				locked, err := app.ReadLock(name)
				if err != nil {
					return err
				}
				in.Locked = append(in.Locked, locked...)
			}
			if since != "" {
				if in.Since, err = env.bundleHead(since); err != nil {
					return fmt.Errorf("--since: %w", err)
				}
			}
			return env.export(cmd, in, file)
		},
	}, `print JSON: with --list the manifest and the index, else {"id": …, "sequence": …, "refused": […], …}`)
	cmd.Flags().StringVar(&since, "since", "", "leave out what this `bundle` has, and those before it")
	cmd.Flags().StringArrayVar(&locks, "lock", nil, "`file` that \"modproxy lock\" wrote: select what it lists")
	addFlag(cmd, &groups, "as", groupsUsage, parseNames)
	cmd.Flags().BoolVar(&list, "list", false, "print what is in a bundle")
	addKeys(cmd, &keys)
	return cmd
}

// addKeys gives a verb the flag --key, which may be repeated.
func addKeys(cmd *cobra.Command, keys *[]string) {
	addFlag(cmd, keys, "key", "another verifier `key` to take bundles of, besides bundle.keys", func(s string) ([]string, error) {
		_, err := ledger.Verifiers(s)
		return append(*keys, s), err
	})
}

// openInput opens a file, or standard input.
func (env *environment) openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(env.stdin), nil
	}
	return os.Open(name)
}

// bundleHead returns the beginning of a bundle.
func (env *environment) bundleHead(name string) ([]byte, error) {
	f, err := env.openInput(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bundle.ReadHead(f)
}

// exportReport is what was exported, and what was not.
type exportReport struct {
	admin.BundleHead
	Refused []bundle.Item `json:"refused"`
}

func (env *environment) export(cmd *cobra.Command, in admin.Export, file string) (err error) {
	report := exportReport{Refused: []bundle.Item{}}
	write := func(w io.Writer) (err error) {
		report.BundleHead, err = ask(cmd.Context(), env, admin.BundlesExport, in, func(e admin.Exported) error {
			if e.Refused != nil {
				report.Refused = append(report.Refused, *e.Refused)
				return nil
			}
			_, err := w.Write(e.Data)
			return err
		})
		return err
	}
	out := env.stdout
	if file == "-" {
		out = env.stderr
		err = write(env.stdout)
	} else {
		err = publishFile(file, 0o644, write)
	}
	if err != nil {
		return err
	}
	text := itemsText(report.Refused) + fmt.Sprintf("Bundle %d of chain %s: %s, %s.\nIts id is %s.\n",
		report.Sequence, report.Chain, count(report.Versions, "version"), count(report.Packages, "package"), report.ID)
	to := *env
	to.stdout = out
	if err := to.print(report, "", text); err != nil || len(in.Wanted)+len(in.Locked) == 0 { // what is refused was not asked for
		return err
	}
	return refusedError(report.Refused, "not in the bundle")
}

// refusedError returns an error if some items were refused, or are absent.
func refusedError(items []bundle.Item, state string) error {
	n := 0
	for _, item := range items {
		if item.State == bundle.Refused || item.State == bundle.Absent {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", count(n, "version"), state)
}

// itemsText is a table.
func itemsText(items []bundle.Item) string {
	var table bytes.Buffer
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0) // a buffer does not fail
	for _, item := range items {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", item.State, item.Module, cmp.Or(item.Version, "-"), printable(cmp.Or(item.Reason, "-")))
	}
	out.Flush()
	return table.String()
}

func newImportCommand(env *environment) *cobra.Command {
	var in admin.BundleImport
	cmd := withJSON(&cobra.Command{
		Use:   "import FILE",
		Short: "Take the packages and records of a bundle",
		Long: `Take what "modproxy export" has written: packages, the records that pin them, when
they were first listed, and decisions. "-" is standard input. It works while
modproxy serves from the data directory. What was taken when an import is
interrupted stays; importing again goes on with the rest.

The bundle is signed with the key of the ledger where it was made. The key
bundle.keys, or --key, has to name it.

What is recorded here stays. A version with another content is refused, and
"modproxy ledger drift" shows it. Of the decisions, those that block, reject or
deprecate are taken over; --all-decisions takes over the others, too, but none that
would end what was blocked or rejected here.

Exit code 1 means that something was refused, or is not here any more.`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := env.openInput(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			in.From = f
			if err := env.makeData(); err != nil { // the other side of a gap begins with a bundle
				return err
			}
			var items []bundle.Item
			head, err := ask(cmd.Context(), env, admin.BundlesImport, in, func(item bundle.Item) error {
				items = append(items, item)
				return nil
			})
			if err != nil {
				return err
			}
			return errors.Join(env.printImport(head, items), refusedError(items, "refused or absent"))
		},
	}, `print JSON: {"id": …, "sequence": …, "added": …, "kept": …, "items": [{"module": …, "version": …, "state": …, "reason": …}], …}`)
	addKeys(cmd, &in.Keys)
	cmd.Flags().BoolVar(&in.NewChain, "new-chain", false, "take a bundle that begins a chain also if it is older than what was imported")
	cmd.Flags().BoolVar(&in.AllDecisions, "all-decisions", false, "take over approvals, and what ends a block or a deprecation, too")
	return cmd
}

// importReport is what became of a bundle.
type importReport struct {
	admin.BundleHead
	Added   int           `json:"added"`
	Kept    int           `json:"kept"`
	Refused int           `json:"refused"`
	Absent  int           `json:"absent"`
	Decided int           `json:"decided"`
	Items   []bundle.Item `json:"items"`
}

func (env *environment) printImport(head admin.BundleHead, items []bundle.Item) error {
	r := importReport{BundleHead: head, Items: items}
	counts := map[bundle.State]*int{
		bundle.Added: &r.Added, bundle.Kept: &r.Kept, bundle.Refused: &r.Refused, bundle.Absent: &r.Absent, bundle.Decided: &r.Decided,
	}
	for _, item := range items {
		*counts[item.State]++
	}
	return env.print(r, "", itemsText(items)+fmt.Sprintf("Bundle %d of chain %s: %d added, %d kept already, %d refused, %d absent; %s taken over.\n",
		r.Sequence, r.Chain, r.Added, r.Kept, r.Refused, r.Absent, count(r.Decided, "decision")))
}

// listBundle checks a bundle, and prints what is in it.
func (env *environment) listBundle(name string, keys []string) error {
	c, err := env.settings()
	if err != nil {
		return err
	}
	if c != nil {
		keys = append(keys, c.Bundle.Keys...)
	}
	trust, err := ledger.Verifiers(keys...)
	if err != nil {
		return misuse{hint.With(err, "bundle.keys, and --key, name keys")}
	}
	f, err := env.openInput(name)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := bundle.NewReader(f, trust)
	for err == nil {
		_, err = b.Next()
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	var table bytes.Buffer
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0) // a buffer does not fail
	fmt.Fprintf(out, "Bundle %d of chain %s, signed by %s.\nIts id is %s.\n", b.Sequence(), b.Chain(), printable(b.Signer), b.ID)
	for _, p := range b.Index.Packages {
		for _, v := range p.Versions {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", v.Module, v.Version, sizeText(p.Package.Size), p.Sum)
		}
	}
	for _, v := range b.Index.Before {
		fmt.Fprintf(out, "%s\t%s\tin bundle %d\t%s\n", v.Version.Module, v.Version.Version, v.Bundle, v.Sum)
	}
	out.Flush()
	return env.print(map[string]any{"id": b.ID, "signer": b.Signer, "manifest": b.Manifest, "index": b.Index}, "", table.String())
}
