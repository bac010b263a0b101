package cache

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Room returns a [modproxy.NoSpace] unless there is room for so many more bytes. Offline, stored packages are not evicted for
// them.
func (r *Registry) Room(ctx context.Context, bytes int64) error {
	return r.Store.Room(ctx, bytes, r.Next == nil)
}

// IsStored reports whether the package of a version is stored, valid and complete, and has this sum. It returns false if that cannot
// be determined.
func (r *Registry) IsStored(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) bool {
	p, err := r.load(ctx, key{v})
	return err == nil && p.Sum == sum && r.Store.Check(ctx, p.Digest) == nil
}

// Exists reports whether the package of a version is stored and valid: its record agrees with the ledger. It does not read the bytes.
func (r *Registry) Exists(ctx context.Context, v modproxy.Ref) (bool, error) {
	_, err := r.cached(ctx, key{v})
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil, nil
	}
	return false, settleIn(ctx, err)
}

// Keep stores a package that was not downloaded by this cache, open at its start. It does not close it. The ledger has a record
// of its version. Errors are those of [store.Store.Keep].
func (r *Registry) Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error {
	defer r.Forget(v)
	_, err := packages{r}.keep(ctx, key{v}, p)
	return err
}

// Learn stores entries for versions whose packages came by other ways, and that the stored document of m does not list. The
// time of the last request stays; without a document it is long ago, so that the entries are only for [Registry.Versions]
// offline.
func (r *Registry) Learn(ctx context.Context, m modproxy.Address, entries []modproxy.Listed) error {
	k := keyOf(m)
	defer r.Forget(k.Ref)
	defer r.versions.memory.Drop(k)
	return putAgain(func() error { return r.learn(ctx, k, entries) }, nil)
}

// learn is one attempt of Learn. The error is a [store.ErrConflict] if another process has changed the document meanwhile.
func (r *Registry) learn(ctx context.Context, k key, entries []modproxy.Listed) error {
	rec, err := r.Store.Records.Get(ctx, k.ref())
	before := &answer[*listing]{value: noListing(k.Address), requested: time.Unix(0, 0)}
	switch {
	case err == nil:
		if before, err = r.versions.parse(k, rec); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrDamaged):
		return &store.StorageError{Err: err}
	}
	v, err := before.value.With(entries)
	if err != nil || len(v.List) == len(before.value.List) {
		return err
	}
	with := *v
	with.Time = cmp.Or(with.Time, time.Now())
	l := &listing{&with, map[string]time.Time{}}
	maps.Copy(l.unlisted, before.value.unlisted)
	for _, entry := range v.List {
		if name := entry.Version.String(); !before.value.lists(name) {
			l.unlisted[name] = time.Now()
		}
	}
	text, err := r.versions.source.encode(l)
	if err != nil {
		return err
	}
	rec.Ref, rec.Value = k.ref(), append(binary.BigEndian.AppendUint64(nil, uint64(before.requested.UnixNano())), text...)
	if _, err = r.Store.Records.Put(ctx, rec); err != nil {
		return fmt.Errorf("versions of %s: %w", k.Address, &store.StorageError{Err: err})
	}
	r.versions.trim(rec.Kind, int64(len(rec.Value)))
	return nil
}
