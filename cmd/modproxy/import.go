package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
)

func newImportCommand(env *environment) *cobra.Command {
	var in admin.BundleImportRequest
	cmd := env.withServer(&cobra.Command{
		Use:   "import FILE",
		Short: "Import the packages and records of a bundle",
		Long:  importHelp,
		Example: `  modproxy import all.bundle --key "$(cat ledger.key)"
  ssh other modproxy export - | modproxy import -`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return env.importBundle(cmd.Context(), in, args[0]) },
	})
	addKeys(cmd, &in.Keys)
	cmd.Flags().BoolVar(&in.NewChain, "new-chain", false, "import a bundle that begins a chain even if it is older than an imported bundle")
	cmd.Flags().BoolVar(&in.AllDecisions, "all-decisions", false, "also import approvals, and decisions that end a block or a deprecation")
	return withJSON(cmd, `"module", "version", "state", "reason"`, `"id", "sequence", "added", "kept", "refused", …`)
}

const importHelp = `Import a bundle of "modproxy export": packages, their records in the ledger,
their first-seen times, and decisions. "-" is standard input. modproxy can serve
from the data directory meanwhile. If an import is interrupted, the imported
content stays, and the same command continues with the rest.

The bundle is signed with the key of the exporting ledger. bundle.keys or --key
must have the verifier key of that ledger.

Records here stay. A version with other content is refused, and "modproxy ledger
drift" prints it. Blocks, rejections and deprecations are imported, with
--all-decisions also the other decisions. An imported decision never ends a
block or rejection that was made here.

Exit code 1 means that a version was refused, or that the package of an earlier
bundle is not stored any more.`

// importBundle imports the bundle in a file.
func (env *environment) importBundle(ctx context.Context, in admin.BundleImportRequest, name string) error {
	f, err := env.openInput(name)
	if err != nil {
		return err
	}
	defer f.Close()
	progress := newTransfer(env.rawErr, "read")
	if file, ok := f.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			progress.begin(info.Size())
		}
	}
	if in.From, err = env.beginData(io.TeeReader(f, progress), in.Keys); err != nil {
		return err
	}
	var items []bundle.Item
	head, err := ask(ctx, env, admin.BundlesImport, in, func(item bundle.Item) error {
		items = append(items, item)
		return nil
	})
	progress.end()
	if errors.Is(err, context.Canceled) || errors.Is(err, admin.ErrNoAnswer) { // the items are unknown in these cases
		err = hint.With(err, progress.String()+": what was taken stays, and the same command goes on with the rest")
	}
	if err != nil {
		return err
	}
	for _, warning := range head.Warnings {
		fmt.Fprintln(env.stderr, "warning: "+printable(warning))
	}
	return errors.Join(env.printImport(head, items), refusedError(items, "refused or absent"))
}

// beginData reads the beginning of a bundle and creates the data directory if it does not exist, because the other side of a gap begins
// with a bundle. It creates nothing if the beginning is refused. It returns a reader of the whole bundle.
func (env *environment) beginData(from io.Reader, keys []string) (io.Reader, error) {
	c, err := env.settings()
	if err != nil || c == nil || datadir.Check(c.Data) == nil {
		return from, err
	}
	trust, err := ledger.Verifiers(append(slices.Clip(keys), c.Bundle.Keys...)...)
	if err != nil {
		return nil, err
	}
	head, err := bundle.ReadHead(from)
	if err == nil {
		_, err = bundle.NewReader(bytes.NewReader(head), trust)
	}
	if err == nil {
		err = env.makeData()
	}
	return io.MultiReader(bytes.NewReader(head), from), err
}

// importReport lists the results of an import.
type importReport struct {
	admin.BundleHead
	Added   int `json:"added"`
	Kept    int `json:"kept"`
	Refused int `json:"refused"`
	Absent  int `json:"absent"`
	Decided int `json:"decided"`
}

func (env *environment) printImport(head admin.BundleHead, items []bundle.Item) error {
	n := map[bundle.State]int{}
	for _, item := range items {
		n[item.State]++
	}
	r := importReport{head, n[bundle.Added], n[bundle.Kept], n[bundle.Refused], n[bundle.Absent], n[bundle.Decided]}
	for _, item := range items {
		if err := env.item(item, ""); err != nil {
			return err
		}
	}
	return env.end(r, itemsText(items)+fmt.Sprintf("Bundle %d of chain %s: %d added, %d kept already, %d refused, %d absent; %s taken over.\n",
		r.Sequence, r.Chain, r.Added, r.Kept, r.Refused, r.Absent, count(r.Decided, "decision")))
}
