package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/mirror"
)

// exportFlags are the flags of "modproxy export".
type exportFlags struct {
	mirrorFlags          // the selection
	keys        []string // verifier keys, for list
	since       string   // name of a bundle
	list        bool
	closure     bool
}

func newExportCommand(env *environment) *cobra.Command {
	var f exportFlags
	cmd := env.withServer(&cobra.Command{
		Use:   "export [ADDRESS[@CONSTRAINT]… | --closure DIR…] FILE",
		Short: "Write packages and their records to a file for another proxy",
		Long:  exportHelp,
		Example: `  modproxy export all.bundle
  modproxy export --since all.bundle more.bundle
  modproxy export --closure live/prod prod.bundle
  modproxy export 'acme/vpc/aws@~> 5.0' vpc.bundle
  modproxy export --list all.bundle`,
		Args: arguments(1, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.exportBundle(cmd.Context(), args[:len(args)-1], args[len(args)-1], f)
		},
	})
	addFlag(cmd, &f.since, "since", "leave out the content of this `bundle` and of the bundles before it", parseFile)
	cmd.Flags().BoolVar(&f.closure, "closure", false, "select everything that the configuration in DIR, or ADDRESS, installs")
	f.add(cmd)
	cmd.Flags().StringArrayVar(&f.locks, "lock", nil, "select the versions in this `file` of \"modproxy lock\"")
	addFlag(cmd, &f.groups, "as", groupsUsage, parseNames)
	cmd.Flags().BoolVar(&f.list, "list", false, "print the content of a bundle")
	addKeys(cmd, &f.keys)
	return withJSON(cmd, `"module", "version", "platform", "state", "reason"`, `"id", "sequence", "versions", "packages", …`)
}

const exportHelp = `Write a bundle: cached packages, with their records in the ledger and
everything needed to serve them, signed with the key of the ledger. "modproxy
import" imports it on a network without access to the registries, and "modproxy
serve --bundle" serves it. "-" means standard output. Versions that the policy
denies to a client without groups, or in the groups of --as, are named and not
exported. No request is sent to a registry.

Without ADDRESS, --closure and --lock, all cached packages are exported.
ADDRESS is the address of a module or provider. An address without a hostname
is in the first upstream. CONSTRAINT selects versions as in a module call.
--lock selects the versions in a modproxy.lock. --closure selects everything
that the configuration in DIR, or ADDRESS, installs, as "modproxy mirror
--check" finds it. Missing packages are named.

With --since, only content that BUNDLE and the bundles before it do not have is
exported. They must be imported before the new one. Only the beginning of
BUNDLE is read, the manifest and the index.

--list prints the content of a bundle. It verifies the whole bundle by
bundle.keys, --key or the key of the ledger here, and changes nothing.

An existing FILE is not replaced: it may be the BUNDLE of the next export. Only
its owner can read FILE. A symbolic link is refused. Without --since, a bundle
begins a chain.

Exit code 1 means that a version that ADDRESS, --closure or --lock selects is
not in the bundle.`

// exportBundle writes the selection to a file, or prints the content of a bundle.
func (env *environment) exportBundle(ctx context.Context, selection []string, file string, f exportFlags) error {
	switch {
	case f.list && (f.closure || len(selection) > 0 || f.since != "" || len(f.locks) > 0):
		return misuse{errors.New("--list takes a bundle and nothing else")}
	case f.list:
		return env.listBundle(ctx, file, f.keys)
	case f.closure && len(selection) == 0:
		return misuse{errors.New("--closure goes with DIR, or ADDRESS, before the FILE")}
	case !f.closure && f.given():
		return misuse{errors.New("--client, --var and --var-file go with --closure")}
	}
	if err := fitsBundle(file); err != nil {
		return err
	}
	in, failed, err := env.toExport(ctx, selection, f.closure, f.mirrorFlags)
	if err != nil {
		return err
	}
	if f.since != "" {
		if in.Since, err = env.bundleHead(f.since); err != nil {
			return fmt.Errorf("--since: %w", err)
		}
	}
	again := ""
	if in.Closure {
		again = "modproxy mirror"
		for _, arg := range selection {
			again += " " + clean.ShellQuote(arg)
		}
	}
	return env.export(ctx, in, file, failed, again)
}

// fitsBundle returns the reason why a bundle cannot be written to a file, or nil.
func fitsBundle(file string) error {
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && file != "-" {
		return hint.With(fmt.Errorf("%s is there, and --since may need it", file), "name another file, or remove it")
	}
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return misuse{fmt.Errorf("no directory %s: the last argument is the FILE that is written", filepath.Dir(file))}
	}
	return nil
}

// toExport reads the selection on the command line. wrong lists problems in parts of configurations; the rest is selected.
func (env *environment) toExport(ctx context.Context, args []string, closure bool, f mirrorFlags) (in admin.ExportRequest, wrong problems, err error) {
	in = admin.ExportRequest{Closure: closure, Groups: f.groups}
	if closure {
		all, wrong, err := env.toMirror(ctx, args, f)
		in.Starts, in.Locked = all.Starts, all.Locked
		return in, wrong, err
	}
	for _, arg := range args {
		start, err := env.wanted(arg)
		if err != nil {
			return in, nil, misuse{err}
		}
		wanted := admin.ModuleVersions{Module: start.Source, Versions: start.Version}
		for _, p := range start.Providers {
			wanted = admin.ModuleVersions{Module: p.Source, Versions: p.Version}
		}
		in.Modules = append(in.Modules, wanted)
	}
	in.Locked, err = readLocks(f.locks)
	return in, nil, err
}

// addKeys adds the flag --key, which may be repeated.
func addKeys(cmd *cobra.Command, keys *[]string) {
	addFlag(cmd, keys, "key", "another verifier `key` for bundles, besides bundle.keys", func(s string) ([]string, error) {
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

// exportReport lists exported and refused versions.
type exportReport struct {
	admin.BundleHead
	refused  []bundle.Item
	Bypasses []*mirror.Note `json:"bypasses,omitempty"`
	Problems []*mirror.Note `json:"problems,omitempty"`
}

// export writes a bundle. failed are earlier problems, and again is the command that fetches missing packages.
func (env *environment) export(ctx context.Context, in admin.ExportRequest, file string, failed problems, again string) error {
	var report exportReport
	progress := newTransfer(env.rawErr, "written")
	write := func(w io.Writer) (err error) {
		report.BundleHead, err = ask(ctx, env, admin.BundlesExport, in, func(e admin.ExportLine) error {
			switch {
			case e.Refused != nil:
				report.refused = append(report.refused, *e.Refused)
			case e.Bypass != nil:
				report.Bypasses = append(report.Bypasses, e.Bypass)
			case e.Problem != nil:
				report.Problems = append(report.Problems, e.Problem)
			case e.Progress != nil && e.Progress.Size == 0:
				progress.progress.show(fmt.Sprintf("%d of %s checked", e.Progress.Checked, count(e.Progress.Selected, "version")))
			case e.Progress != nil:
				progress.begin(e.Progress.Size)
			}
			if e.Data == nil {
				return nil
			}
			_, err := io.MultiWriter(w, progress).Write(e.Data)
			return err
		})
		progress.end()
		return err
	}
	to, err := *env, error(nil)
	if file == "-" {
		to.stdout = env.stderr
		err = write(env.rawOut)
	} else {
		err = publishPrivate(ctx, file, write)
	}
	for _, p := range report.Bypasses {
		fmt.Fprintln(env.stderr, "past modproxy: "+printable(p.String()))
	}
	lacks := false
	for _, p := range report.Problems {
		failed = append(failed, errors.New(printable(p.String())))
		lacks = lacks || p.Lacks != ""
	}
	if err == nil {
		err = to.printExport(report)
		if in.Closure || len(in.Modules)+len(in.Locked) > 0 { // otherwise refused versions were not selected explicitly
			err = cmp.Or(err, refusedError(report.refused, "not in the bundle"))
		}
	}
	if lacks {
		err = hint.With(cmp.Or(err, errors.New("the bundle lacks something that is called")), `"`+again+`" fetches what is not cached`)
	}
	if err != nil {
		failed = append(failed, err)
	}
	if len(failed) > 1 {
		return failed
	}
	return errors.Join(failed...)
}

// printExport prints exported and refused versions.
func (env *environment) printExport(r exportReport) error {
	for _, item := range r.refused {
		if err := env.item(item, ""); err != nil {
			return err
		}
	}
	return env.end(r, itemsText(r.refused)+fmt.Sprintf("Bundle %d of chain %s: %s, %s.\nIts id is %s.\n",
		r.Sequence, r.Chain, count(r.Versions, "version"), count(r.Packages, "package"), r.ID))
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

// itemsText formats items as a table.
func itemsText(items []bundle.Item) string {
	out, table := newTable()
	for _, item := range items {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", item.State, item.Module, cmp.Or(strings.TrimSpace(item.Version+" "+item.Platform), "-"), printable(cmp.Or(item.Reason, "-")))
	}
	return table()
}

// versionShown formats a version, with the platform of a provider's package.
func versionShown(v modproxy.Ref) string {
	n := versionname.Of(v)
	return strings.TrimSpace(n.Version + " " + n.Platform)
}

// listBundle verifies a bundle and prints its content.
func (env *environment) listBundle(ctx context.Context, name string, keys []string) error {
	c, err := env.settings()
	if err != nil {
		return err
	}
	if c != nil {
		keys = append(keys, c.Bundle.Keys...)
	}
	if own, err := ask(ctx, env, admin.LedgerKey, struct{}{}, nil); err == nil { // without a key of its own, the other keys may suffice
		keys = append(keys, own)
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
	return env.printBundle(b)
}

// bundledVersion is a version in a bundle, or in an earlier bundle of its chain.
type bundledVersion struct {
	versionname.Name
	Size   int64        `json:"size_bytes,omitempty"`
	Bundle int          `json:"bundle,omitempty"` // number of the earlier bundle with the package
	Sum    modproxy.Sum `json:"sum"`
}

func (env *environment) printBundle(b *bundle.Reader) error {
	var all []bundledVersion
	out, table := newTable()
	fmt.Fprintf(out, "Bundle %d of chain %s, signed by %s.\nIts id is %s.\n", b.Sequence(), b.Chain(), printable(b.Signer), b.ID)
	for _, p := range b.Index.Packages {
		for _, v := range p.Versions {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", v.Address, versionShown(v.Ref), modproxy.SizeText(p.Package.Size), p.Sum)
			all = append(all, bundledVersion{versionname.Of(v.Ref), p.Package.Size, 0, p.Sum})
		}
	}
	for _, v := range b.Index.Before {
		fmt.Fprintf(out, "%s\t%s\tin bundle %d\t%s\n", v.Version.Address, versionShown(v.Version.Ref), v.Bundle, v.Sum)
		all = append(all, bundledVersion{versionname.Of(v.Version.Ref), 0, v.Bundle, v.Sum})
	}
	for _, v := range all {
		if err := env.item(v, ""); err != nil {
			return err
		}
	}
	return env.end(map[string]any{"id": b.ID, "signer": b.Signer, "manifest": b.Manifest, "index": b.Index}, table())
}
