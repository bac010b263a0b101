package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
)

func newLedgerExportCommand(env *environment) *cobra.Command {
	return withJSON(env.withServer(&cobra.Command{
		Use:   "export FILE",
		Short: "Write the whole ledger to a file",
		Long: `Write all records, and the signed head that proves them and their order. "-" is
standard output. The file does not contain the private key: to preserve the
ledger's identity, back up its directory.`,
		Example: `  modproxy ledger export ledger.export
  modproxy ledger export - | ssh other modproxy ledger import -`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return env.exportLedger(cmd.Context(), args[0]) },
	}), `"file", "records"`, "")
}

// exportLedger writes the ledger to a file, or to standard output for "-".
func (env *environment) exportLedger(ctx context.Context, file string) error {
	if file == "-" && env.json() {
		return misuse{errors.New("standard output gets the ledger: --json needs a FILE")}
	}
	var n int64
	export := func(w io.Writer) (err error) {
		n, err = ask(ctx, env, admin.LedgerExport, struct{}{}, func(p []byte) error {
			_, err := w.Write(p)
			return err
		})
		return err
	}
	if file == "-" {
		return export(env.rawOut)
	}
	if err := publishPrivate(ctx, file, export); err != nil {
		return err
	}
	return env.print(map[string]any{"file": file, "records": n}, fmt.Sprintf("%d records and observations are in %s.\n", n, file))
}

func newLedgerImportCommand(env *environment) *cobra.Command {
	var keys []string
	cmd := env.withServer(&cobra.Command{
		Use:   "import FILE",
		Short: "Add the records of an export",
		Long: `Add the records of an export that are missing in the ledger. "-" is standard
input. The export must begin with all records of the ledger, or the ledger with
all records of the export. An export with another record in the same place is
refused, and nothing is added.

An export of another ledger is signed with that ledger's key, which --key must
name. "modproxy ledger key" prints it on the machine of that ledger.`,
		Example: `  modproxy ledger import ledger.export
  modproxy ledger import ledger.export --key "$(cat other.key)"`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := env.openInput(args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			added, err := ask(cmd.Context(), env, admin.LedgerImport, admin.LedgerImportRequest{Keys: keys, From: from}, nil)
			if err != nil {
				return err
			}
			return env.print(map[string]any{"added": added}, fmt.Sprintf("%d records and observations were added.\n", added))
		},
	})
	addFlag(cmd, &keys, "key", "another verifier `key` to accept, besides the ledger's own", func(s string) ([]string, error) {
		_, err := ledger.Verifiers(s)
		return append(keys, s), err
	})
	return withJSON(cmd, `"added"`, "")
}

func newLedgerInitCommand(env *environment) *cobra.Command {
	return withJSON(withKeys(&cobra.Command{
		Use:   "init",
		Short: "Create a new ledger if the old one is lost",
		Long: `Create a new ledger from the stored packages. All other records of the lost
ledger are gone: modproxy records the content of their versions again at the
next download. If you have a backup or an export, restore or import that
instead.

modproxy must not be serving from the data directory.`,
		Example: "  modproxy ledger init --data /var/lib/modproxy",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.alone(cmd.Context(), func(c *config.Config) error {
				records, err := app.BeginLedger(cmd.Context(), c)
				if err != nil {
					return err
				}
				return env.print(map[string]any{"records": records}, fmt.Sprintf("A ledger of %d records was begun.\n", records))
			})
		},
	}, "data"), `"records"`, "")
}
