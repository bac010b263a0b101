package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// api returns the operator's API of the app.
func (a *App) api() *admin.Server {
	server := &admin.Server{Ledger: a.Ledger, Cache: a.Cache, Store: a.Store}
	if !a.config.Offline {
		server.Upstreams = a.config
	}
	return server
}

// operatorMounts adds the operator's API to what a proxy answers.
func operatorMounts(server *admin.Server) []proxy.Mount {
	var mounts []proxy.Mount
	for _, r := range server.Routes() {
		mounts = append(mounts, proxy.Mount{Method: r.Method, Path: r.Path, Kind: "api", Handle: r.Handle})
	}
	return mounts
}

// ownerByConn makes the owner of the data directory the principal of what comes by the
// socket.
func ownerByConn(ctx context.Context, conn net.Conn) context.Context {
	if _, ok := conn.(*net.UnixConn); ok {
		return auth.WithPrincipal(ctx, auth.Owner)
	}
	return ctx
}

// A Part is what a verb needs of the data directory while no proxy serves from it.
type Part int

const (
	LedgerNow    Part = iota // the ledger as it is, for reading, whatever another process does
	LedgerChange             // the ledger, which must exist
	LedgerAny                // the ledger, which is made if there is none
	Packages                 // what is kept, and the ledger as far as it can be read
	Registries               // all of a proxy
)

// OpenAPI returns the operator's API of a part of the data directory, for this
// process only. The directory must be claimed, but for LedgerNow. done releases it.
func OpenAPI(ctx context.Context, c *config.Config, part Part, o Options) (_ *admin.Client, done func() error, err error) {
	l := &local{}
	switch part {
	case Packages:
		err = l.openPackages(c)
	case Registries:
		err = l.openAll(ctx, c, o)
	default:
		err = l.openLedger(c, part)
	}
	if err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	api := proxy.New(proxy.Config{Mounts: operatorMounts(&l.server)})
	client, end := admin.Inside(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(auth.WithPrincipal(r.Context(), auth.Owner)))
	}))
	l.closers = append(l.closers, end)
	return client, l.close, nil
}

// local is the operator's API of a part of the data directory.
type local struct {
	server  admin.Server
	closers []func() error // in the order in which what they close was opened
}

func (l *local) close() error {
	var errs []error
	for _, f := range slices.Backward(l.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// openLedger opens the ledger alone: the index may be lost or damaged.
func (l *local) openLedger(c *config.Config, part Part) (err error) {
	if part != LedgerAny {
		if err := admin.HaveData(c.Data); err != nil {
			return err
		}
		if err := admin.HaveDir(c.LedgerDir(), "ledger"); err != nil {
			return err
		}
	}
	if part == LedgerNow {
		l.server.Ledger, err = ledger.OpenReadOnly(c.LedgerDir())
	} else {
		l.server.Ledger, err = ledger.Open(c.LedgerDir())
	}
	if err == nil {
		l.closers = append(l.closers, l.server.Ledger.Close)
	}
	return err
}

// openPackages opens what is kept. A ledger that cannot be read is damage, which
// verifying tells.
func (l *local) openPackages(c *config.Config) error {
	kept, dir, err := openStore(c)
	if err != nil {
		return err
	}
	l.closers = append(l.closers, dir.Close, func() error { return kept.Close(context.Background()) })
	if _, err := os.Stat(c.LedgerDir()); !errors.Is(err, fs.ErrNotExist) {
		l.server.Damage = l.openLedger(c, LedgerNow)
	}
	packages := &cache.Registry{Store: kept}
	if book := l.server.Ledger; book != nil && book.Tree().N > 0 { // else it says nothing of what is kept
		kept.Kinds[cache.PackageKind], packages.Ledger = keeperOf(book), book
	}
	l.closers = append(l.closers, func() error { return packages.Close(context.Background()) })
	l.server.Store, l.server.Cache = kept, packages
	return nil
}

func (l *local) openAll(ctx context.Context, c *config.Config, o Options) error {
	inside := *c
	inside.Anonymous = true // only this process can ask
	s, err := Open(ctx, &inside, o)
	if err != nil {
		return err
	}
	l.closers = append(l.closers, s.Close)
	l.server = *s.api()
	if why := s.disk.ReadOnly(); why != nil {
		return fmt.Errorf("the data directory is read-only: %w", why)
	}
	return nil
}

// BeginLedger makes a ledger of the kept packages, if there is none or one of which
// that was begun. It returns how many records that has then.
func BeginLedger(ctx context.Context, c *config.Config) (records int64, err error) {
	kept, dir, err := openStore(c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, kept.Close(ctx), dir.Close()) }()
	book, err := ledger.Open(c.LedgerDir())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	before := book.Tree().N
	packages := &cache.Registry{Store: kept, Ledger: book}
	defer packages.Close(ctx)
	begun := map[modproxy.ModuleVersion]modproxy.Sum{}
	for p, err := range packages.List(ctx, modproxy.Module{}) {
		if err != nil {
			return 0, err
		}
		begun[p.ModuleVersion] = p.Sum
	}
	for r, err := range book.All(ctx) {
		if err != nil {
			return 0, err
		}
		if begun[r.ModuleVersion] != r.Sum {
			return 0, errHasLedger
		}
	}
	for p, err := range packages.List(ctx, modproxy.Module{}) {
		if err == nil {
			err = packages.Record(ctx, &p.Kept)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.ModuleVersion, err)
		}
	}
	records = book.Tree().N
	if before > 0 && records == before {
		return 0, errHasLedger
	}
	return records, nil
}

var errHasLedger = fmt.Errorf("%w: there is a ledger already", modproxy.ErrInvalid)

// Rebuilt is what a rebuild has made.
type Rebuilt struct {
	Problem string         `json:"problem,omitempty"` // with the old index; empty: it could be opened
	Aside   string         `json:"aside,omitempty"`   // where the old index is now; empty: there was none
	Lists   int            `json:"versions"`          // lists of versions that were taken over
	Damaged []admin.Damage `json:"damaged,omitempty"` // packages, which were set aside
	store.Verified
}

// Rebuild makes a new index of the packages, which it reads, and of the ledger.
func Rebuild(ctx context.Context, c *config.Config) (out Rebuilt, err error) {
	book, err := ledger.OpenReadOnly(c.LedgerDir())
	if err != nil {
		return out, err
	}
	defer book.Close()
	index, err := disk.Renew(ctx, c.Data)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	kept := &store.Store{
		Records: index.Records(), Blobs: index.Blobs(), Aside: index,
		Kinds: map[store.Kind]store.Keeper{cache.PackageKind: keeperOf(book)},
	}
	out.Problem, out.Lists = index.Problem, index.Kept[cache.VersionsKind]
	out.Verified, err = kept.Rebuild(ctx, store.Check{Found: func(d store.Damage) {
		out.Damaged = append(out.Damaged, admin.DamageOf(d))
	}})
	if err == nil {
		out.Aside, err = index.Finish()
	}
	return out, errors.Join(err, kept.Close(ctx))
}
