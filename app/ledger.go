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
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/store"
)

// openLedger opens the ledger. Where packages are kept it has had records: to go on
// with none would unpin every version.
func openLedger(ctx context.Context, c *config.Config, kept *store.Store) (_ *ledger.Log, err error) {
	book, err := ledger.Open(c.LedgerDir())
	if errors.Is(err, syscall.EROFS) {
		book, err = ledger.OpenReadOnly(c.LedgerDir())
	}
	if err != nil || book.Tree().N > 0 {
		return book, err
	}
	for _, err := range kept.Records.List(ctx, cache.PackageKind, "") {
		if err == nil || errors.Is(err, store.ErrDamaged) {
			err = hint.With(fmt.Errorf("%s: %w", c.LedgerDir(), admin.ErrNoLedger), admin.NoLedgerHints...)
		}
		return nil, errors.Join(err, book.Close())
	}
	return book, nil
}

const SumDBPath = "/-/sumdb/"

// sumDBMounts serve the ledger as the go command knows a checksum database, with
// what it asks a proxy for one ("supported") and the key to check it with.
func sumDBMounts(book *ledger.Log) []proxy.Mount {
	prefix := SumDBPath + book.Name()
	server := http.StripPrefix(prefix, sumdb.NewServer(book.ServerOps()))
	text := func(s string) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(s)) // a client that is gone is no concern
			return nil
		}
	}
	return []proxy.Mount{
		{Method: "GET", Path: SumDBPath + "key", Kind: "ledger", Public: true, Handle: text(book.VerifierKey() + "\n")},
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

// mayLookUp is nil when p may be shown what is at a path of a checksum database.
// What is absent and what is none of p's business has one answer. Hashes and
// signed heads say nothing of a module; tiles of records do, and the client of the
// go command does not ask for them.
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
	key, err := lookupKey(escaped)
	if err == nil {
		v, bad := ledger.ParseKey(key)
		if bad == nil && p.MayRead(v.Module) {
			return nil
		}
	}
	return fs.ErrNotExist
}

// lookupKey reads what follows /lookup/, as sumdb.Server does.
func lookupKey(escaped string) (module.Version, error) {
	path, version, _ := strings.Cut(escaped, "@")
	path, err := module.UnescapePath(path)
	if err != nil {
		return module.Version{}, err
	}
	version, err = module.UnescapeVersion(version)
	return module.Version{Path: path, Version: version}, err
}
