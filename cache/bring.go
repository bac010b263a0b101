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

// Room returns a [modproxy.NoSpace] unless there is room for so many bytes more. Offline, what is kept stays.
func (r *Registry) Room(ctx context.Context, bytes int64) error {
	return r.Store.Room(ctx, bytes, r.Next == nil)
}

// Holds reports whether the package of a version is kept and counts, has that content, and is whole.
func (r *Registry) Holds(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) bool {
	r.once.Do(r.start)
	p, err := r.lookup(ctx, key{v})
	return err == nil && p.Sum == sum && r.Store.Check(ctx, p.Digest) == nil
}

// Has reports whether the package of a version is kept and counts, as far as that is known without reading it.
func (r *Registry) Has(ctx context.Context, v modproxy.Ref) (bool, error) {
	r.once.Do(r.start)
	_, err := r.record(ctx, key{v})
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil, nil
	}
	return false, settleIn(ctx, err)
}

// Keep keeps a package that was brought and not fetched, open at its start, which it does not close. The ledger has its
// version as that. Errors are those of [store.Store.Keep].
func (r *Registry) Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error {
	r.once.Do(r.start)
	defer r.Forget(v)
	_, err := packages{r}.keep(ctx, key{v}, p)
	return err
}

// Learn keeps entries for versions that were brought and that the kept document of m does not list. When a registry was asked
// for that stays as it was, or long ago if there is no document: such a one is for [Registry.Versions] offline.
func (r *Registry) Learn(ctx context.Context, m modproxy.Address, entries []modproxy.Listed) error {
	r.once.Do(r.start)
	k := keyOf(m)
	defer r.Forget(k.Ref)
	defer r.versions.hot.Drop(k)
	for try := 1; ; try++ {
		rec, err := r.Store.Records.Get(ctx, k.ref())
		before := &answer[*listing]{kept: noListing(m), asked: time.Unix(0, 0)}
		switch {
		case err == nil:
			if before, err = r.versions.parse(k, rec); err != nil {
				return err
			}
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrDamaged):
			return &store.StorageError{Err: err}
		}
		v, err := before.kept.With(entries)
		if err != nil || len(v.List) == len(before.kept.List) {
			return err
		}
		with := *v
		with.Time = cmp.Or(with.Time, time.Now())
		l := &listing{&with, map[string]time.Time{}}
		maps.Copy(l.unlisted, before.kept.unlisted)
		for _, entry := range v.List {
			if name := entry.Version.String(); !before.kept.lists(name) {
				l.unlisted[name] = time.Now()
			}
		}
		text, err := r.versions.source.encode(l)
		if err != nil {
			return err
		}
		rec.Ref, rec.Value = k.ref(), append(binary.BigEndian.AppendUint64(nil, uint64(before.asked.UnixNano())), text...)
		_, err = r.Store.Records.Put(ctx, rec)
		switch {
		case err == nil:
			r.versions.trim(rec.Kind, int64(len(rec.Value)))
			return nil
		case !errors.Is(err, store.ErrConflict) || try == maxTries:
			return fmt.Errorf("versions of %s: %w", m, &store.StorageError{Err: err})
		}
	}
}
