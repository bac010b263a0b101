package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/backup"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// backups returns what backups need beside the ledger and the store.
func (p *parts) backups() admin.Backups {
	return admin.Backups{Tables: history.Tables, Program: p.options.Version, Secret: p.secret}
}

// secret returns the content of a file of credentials. A damaged list of tokens is an error.
func (p *parts) secret(name string) ([]byte, error) {
	path := filepath.Join(p.config.Data, filepath.FromSlash(name))
	if path == p.config.TokensFile() {
		if _, err := auth.OpenTokens(path); err != nil {
			return nil, err
		}
	}
	return durable.ReadRegular(path, 16<<20)
}

// Restore restores a backup into the data directory, which must be missing or empty. It verifies everything before the directory can be
// used. After an error the directory is as before; after a crash only another restore can use it.
func Restore(ctx context.Context, c *config.Config, from io.Reader) (out backup.Summary, err error) {
	b, err := backup.NewReader(from)
	if err != nil {
		return out, err
	}
	dir, err := datadir.BeginRestore(c.Data)
	if err != nil {
		return out, beside(b, c, err)
	}
	if out, err = b.Restore(ctx, c.Data); err == nil {
		err = verifyRestored(ctx, c)
	}
	if err == nil {
		return out, dir.Finish()
	}
	return out, errors.Join(err, dir.Abandon())
}

// beside adds to the error for a directory that has data what its ledger would lose.
func beside(b *backup.Reader, c *config.Config, err error) error {
	if !errors.As(err, new(*datadir.NotEmpty)) {
		return err
	}
	const remedy = "name a directory that does not exist with --data, or move this one away"
	here, failed := ledger.OpenReadOnly(c.LedgerDir())
	if failed != nil {
		return hint.With(err, remedy)
	}
	defer here.Close()
	return hint.With(fmt.Errorf("%w; its ledger has %d entries, and the backup of %s was begun with %d: a restore never replaces a ledger",
		err, here.Tree().N, b.Created.Format("2006-01-02 15:04 MST"), b.Least), remedy)
}

// verifyRestored compares the restored records with the ledger, and reads the tokens.
func verifyRestored(ctx context.Context, c *config.Config) (err error) {
	a := inside(c, Options{})
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.openDisk(ctx, disk.Options{}); err != nil {
		return err
	}
	ledgerLog, err := ledger.OpenReadOnly(c.LedgerDir())
	if err != nil {
		return err
	}
	a.useLedger(ledgerLog)
	a.openStore(ledgerLog)
	var first *store.Damage
	found, err := a.Store.Verify(ctx, store.Check{Found: func(d store.Damage) {
		if first == nil {
			first = &d
		}
	}})
	if first != nil && err == nil {
		d := admin.DamageOf(*first)
		err = fmt.Errorf("%w: the backup contradicts itself in %d places, the first one is %s %s: %s: use another backup",
			modproxy.ErrInvalid, found.Damage, d.Module, d.Version, d.Text)
	}
	_, errTokens := auth.OpenTokens(c.TokensFile())
	return errors.Join(err, errTokens)
}
