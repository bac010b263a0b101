package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/store"
)

// openLedger opens the ledger. Where packages are kept it has had records: to go on with none would unpin every
// version.
func (a *App) openLedger(ctx context.Context) (err error) {
	dir := a.config.LedgerDir()
	a.Ledger, err = ledger.Open(dir)
	if errors.Is(err, syscall.EROFS) {
		a.Ledger, err = ledger.OpenReadOnly(dir)
	}
	if err != nil || a.Ledger.Tree().N > 0 {
		return err
	}
	for _, err := range a.Store.Records.List(ctx, cache.PackageKind, "") {
		if err == nil || errors.Is(err, store.ErrDamaged) {
			err = hint.With(fmt.Errorf("%s: %w", dir, admin.ErrNoLedger), admin.NoLedgerHints...)
		}
		return err
	}
	return nil
}

const sumDBPath = "/-/sumdb/"

// sumDBMounts serve the ledger as the go command knows a checksum database, with what it asks a proxy for one
// ("supported") and the key to check it with.
func sumDBMounts(book *ledger.Log) []proxy.Mount {
	prefix := sumDBPath + book.Name()
	server := http.StripPrefix(prefix, sumdb.NewServer(book.ServerOps()))
	text := func(s string) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(s)) // a client that is gone is no concern
			return nil
		}
	}
	return []proxy.Mount{
		{Method: "GET", Path: sumDBPath + "key", Kind: "ledger", Public: true, Handle: text(book.VerifierKey() + "\n")},
		{Method: "GET", Path: prefix + "/supported", Kind: "ledger", Public: true, Handle: text("")},
		{Method: "GET", Path: prefix + "/", Kind: "ledger", Public: true, Handle: func(w http.ResponseWriter, r *http.Request) error {
			if err := mayLookUp(auth.PrincipalOf(r.Context()), strings.TrimPrefix(r.URL.Path, prefix)); err != nil {
				return err
			}
			server.ServeHTTP(w, r)
			return nil
		}},
	}
}

// mayLookUp is nil when p may be shown what is at a path of a checksum database. What is absent and what is
// none of p's business has one answer. Hashes and signed heads say nothing of a module; tiles of records do,
// and the client of the go command does not ask for them.
func mayLookUp(p auth.Principal, path string) error {
	if p.Kind == auth.Nobody || p.Admin { // nobody is asked who they are
		return nil
	}
	if strings.HasPrefix(path, "/tile/") && strings.Contains(path, "/data/") {
		return fs.ErrNotExist
	}
	escaped, ok := strings.CutPrefix(path, "/lookup/")
	if !ok {
		return nil
	}
	// What follows is read as sumdb.Server does.
	path, version, _ := strings.Cut(escaped, "@")
	path, badPath := module.UnescapePath(path)
	version, badVersion := module.UnescapeVersion(version)
	v, bad := ledger.ParseKey(module.Version{Path: path, Version: version})
	if badPath != nil || badVersion != nil || bad != nil || !p.MayRead(v.Module) {
		return fs.ErrNotExist
	}
	return nil
}
