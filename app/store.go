package app

import (
	"context"
	"errors"
	"io"
	"syscall"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// openStore opens what is kept; for reading, on a file system that is read-only.
func (a *App) openStore() (err error) {
	c := a.config
	a.disk, err = disk.Open(c.Data)
	if errors.Is(err, syscall.EROFS) {
		a.disk, err = disk.OpenReadOnly(c.Data)
	}
	if err != nil {
		return err
	}
	a.Store = &store.Store{
		Records: a.disk.Records(), Blobs: a.disk.Blobs(), Aside: a.disk,
		Kinds: map[store.Kind]store.Keeper{cache.VersionsKind: nil, cache.PackageKind: keeperOf(nil)},
		Pins:  pins(c.Cache.Pinned), MaxSize: int64(c.Cache.MaxSize), Memory: int64(c.Cache.Memory),
	}
	return nil
}

// pins keep the packages of modules from being evicted.
type pins auth.Scopes

// Pinned implements [store.Pins].
func (p pins) Pinned(ref store.Ref) bool {
	v, ok := cache.VersionOf(ref)
	return ok && len(p) > 0 && auth.Scopes(p).Covers(v.Module)
}

// keeperOf returns what verifies and rebuilds the records of packages. A nil ledger says nothing about them.
func keeperOf(book *ledger.Log) *cache.Keeper {
	// The limits are far above those of fetching, which may have been lowered since.
	limits := pack.Limits{Entries: 10_000_000, Bytes: 1 << 42, Packed: 1 << 42}
	k := &cache.Keeper{Sum: func(r io.Reader) (modproxy.Sum, error) { return pack.Verify(r, limits) }}
	if book != nil {
		k.Ledger = book
	}
	return k
}

// readOnly is Next above a data directory that is read-only. What is fetched could not be recorded, and might be
// another the next time: nothing is.
type readOnly struct {
	Next modproxy.Registry
	Why  error
}

// Versions returns the answer of Next.
func (r *readOnly) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns [modproxy.NoSpace].
func (r *readOnly) Location(context.Context, modproxy.ModuleVersion) (modproxy.Location, error) {
	return modproxy.Location{}, &modproxy.NoSpace{Err: r.Why}
}

// Package returns [modproxy.NoSpace].
func (r *readOnly) Package(context.Context, modproxy.ModuleVersion) (*modproxy.Package, error) {
	return nil, &modproxy.NoSpace{Err: r.Why}
}
