package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/backup"
	"github.com/modproxy/modproxy/store"
)

// Backups has the fields of a [backup.Source] that are not the ledger and the store.
type Backups struct {
	Tables  []store.Kind
	Program string
	Secret  func(name string) ([]byte, error)
}

// A BackupRequest selects the content of a backup.
type BackupRequest struct {
	Packages bool `json:"packages,omitempty"`
}

// A BackupLine is a part of the answer. Exactly one field is set.
type BackupLine struct {
	Data   []byte  `json:"data,omitempty"`   // the next bytes of the backup
	Damage *Damage `json:"damage,omitempty"` // a damaged package or record that is not in the backup
}

// backup sends a backup in pieces. It denies operators with a token: a backup has private keys, and only the owner of the data directory may
// receive it.
func (s *Server) backup(ctx context.Context, in BackupRequest, each func(BackupLine)) (out backup.Summary, err error) {
	if s.Operators != nil && s.Operators.Operator(ctx) != "" {
		return out, fmt.Errorf("%w: a backup has private keys, and only the owner of the data directory may receive it: run \"modproxy backup\" on the proxy's machine",
			modproxy.ErrDenied)
	}
	if d := s.checkLedger(ctx); d != nil {
		return out, errors.New(d.Text)
	}
	if s.Ledger == nil {
		return out, errors.New("nothing to back up: the ledger does not exist yet; the first start of \"modproxy serve\" creates it")
	}
	source := backup.Source{Ledger: s.Ledger, Store: s.Store, Tables: s.Backups.Tables, Program: s.Backups.Program, Secret: s.Backups.Secret}
	w := bufio.NewWriterSize(pieces(func(p []byte) { each(BackupLine{Data: p}) }), 256<<10)
	out, err = source.Write(ctx, w, backup.Options{Packages: in.Packages, Found: func(d store.Damage) {
		damage := DamageOf(d)
		each(BackupLine{Damage: &damage})
	}})
	if err == nil {
		err = w.Flush()
	}
	return out, err
}
