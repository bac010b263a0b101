package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/backup"
	"github.com/modproxy/modproxy/internal/hint"
)

func newBackupCommand(env *environment) *cobra.Command {
	var in admin.BackupRequest
	var replace bool
	cmd := withKeys(&cobra.Command{
		Use:   "backup FILE",
		Short: "Write all that cannot be downloaded again to a file",
		Long: `Write a backup of the data directory: the ledger with its private key, tokens,
the key of signed paths, decisions, first-seen times and counts. --packages adds
the packages and the cached answers of registries. "-" is standard output.
modproxy can serve meanwhile. "modproxy restore" restores the file.

The file has secrets: a person who can read it can sign for the ledger. Only its
owner may read it. It is not encrypted, and not compressed.

Damaged packages and records are printed and left out; the exit code is then 1.
Run the verb on the proxy's machine, as the owner of the data directory or root:
modproxy does not send a backup over a network.`,
		Example: `  modproxy backup /backup/modproxy.backup --yes
  modproxy backup --packages all.backup
  modproxy backup - | age -r KEY > modproxy.backup.age`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := env.fitsBackup(args[0], replace); err != nil {
				return err
			}
			return env.backup(cmd.Context(), args[0], in)
		},
	}, "data")
	cmd.Flags().BoolVar(&in.Packages, "packages", false, "include packages and cached answers, for a restore without the registries")
	cmd.Flags().BoolVar(&replace, "yes", false, "replace FILE if it exists")
	return withJSON(cmd, `"kind", "module", "version", "text", …`, `"file", "created", "key", "entries", "records", "packages", …`)
}

// fitsBackup returns nil if a backup can be written to file, and otherwise the reason why not.
func (env *environment) fitsBackup(file string, replace bool) error {
	terminal := misuse{errors.New("a backup has secrets, so it is not printed on a terminal: name a FILE, or write - to a pipe")}
	if file == "-" {
		switch {
		case isTerminal(env.rawOut):
			return terminal
		case env.json():
			return misuse{errors.New("with -, standard output has the backup: --json needs a FILE")}
		}
		return nil
	}
	info, err := os.Stat(file)
	null, errNull := os.Stat(os.DevNull)
	switch {
	case err != nil:
	case info.Mode()&os.ModeCharDevice != 0 && (errNull != nil || !os.SameFile(info, null)):
		return terminal
	case info.Mode().IsRegular() && !replace:
		return hint.With(fmt.Errorf("%s exists", file), "name another file, or replace this one with --yes")
	}
	return nil
}

// backup writes a backup to a file, or to standard output if file is "-".
func (env *environment) backup(ctx context.Context, file string, in admin.BackupRequest) error {
	var out backup.Summary
	damaged := 0
	progress := newTransfer(env.rawErr, "written")
	write := func(w io.Writer) (err error) {
		out, err = ask(ctx, env, admin.BackupsMake, in, func(line admin.BackupLine) error {
			if line.Damage != nil {
				damaged++
				progress.progress.clear()
				env.remark(errors.New("left out: " + damageText(line.Damage)))
				return env.backupItem(file, line.Damage)
			}
			_, err := io.MultiWriter(w, progress).Write(line.Data)
			return err
		})
		progress.end()
		return err
	}
	if file == "-" {
		if err := write(env.rawOut); err != nil {
			return err
		}
	} else {
		if err := publishPrivate(ctx, file, write); err != nil {
			return err
		}
		summary := struct {
			File string `json:"file"`
			backup.Summary
		}{file, out}
		if err := env.end(summary, fmt.Sprintf("%s has %s. It has secrets: keep it as safe as the data directory.\n", file, backupText(out))); err != nil {
			return err
		}
	}
	if damaged > 0 {
		return hint.With(fmt.Errorf("damaged packages and records that are not in the backup: %d", damaged), `"modproxy verify --read-data --repair" repairs what it can`)
	}
	return nil
}

// backupItem prints a damaged package or record with --json, unless standard output has the backup.
func (env *environment) backupItem(file string, d *admin.Damage) error {
	if file == "-" || !env.json() {
		return nil
	}
	return env.item(d, "")
}

func backupText(s backup.Summary) string {
	text := fmt.Sprintf("the ledger with %d records and observations, and %s of the store", s.Entries, count(s.Records, "record"))
	if s.WithPackages {
		text += fmt.Sprintf(", with %s, %s", count(s.Packages.Blobs, "package"), modproxy.SizeText(s.Packages.Bytes))
	}
	return text
}

func newRestoreCommand(env *environment) *cobra.Command {
	return withJSON(withKeys(&cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty data directory",
		Long: `Restore a file of "modproxy backup" into the data directory, which must be
missing or empty: a restore never replaces a ledger. "-" is standard input.
modproxy verifies everything before the directory can be used. If a restore is
killed, modproxy refuses the directory until the restore is repeated.

Records, decisions and revocations after the backup are lost.`,
		Example: `  modproxy restore /backup/modproxy.backup --data /var/lib/modproxy
  age -d -i key.txt modproxy.backup.age | modproxy restore - --data restored`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return env.restore(cmd.Context(), args[0]) },
	}, "data"), `"directory", "created", "key", "entries", "records", "packages", …`, "")
}

func (env *environment) restore(ctx context.Context, file string) error {
	c, err := env.settings()
	if err != nil {
		return err
	}
	f, err := env.openInput(file)
	if err != nil {
		return err
	}
	defer f.Close()
	progress := newTransfer(env.rawErr, "read")
	if from, ok := f.(*os.File); ok {
		if info, err := from.Stat(); err == nil && info.Mode().IsRegular() {
			progress.begin(info.Size())
		}
	}
	out, err := app.Restore(ctx, c, io.TeeReader(f, progress))
	progress.end()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	made := out.Created.Format(time.RFC3339)
	env.remark(fmt.Errorf("records, decisions and revocations after %s are lost: revoke tokens and block versions again", made))
	restored := struct {
		Directory string `json:"directory"`
		backup.Summary
	}{c.Data, out}
	return env.print(restored, fmt.Sprintf("%s has %s, of %s.\n", c.Data, backupText(out), made))
}
