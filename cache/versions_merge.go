package cache

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/modproxy/modproxy"
)

// request implements source. Versions with stored packages stay listed, and so do versions that can be downloaded again from their
// source in the ledger.
func (r listings) request(ctx context.Context, k key, before *listing) (l *listing, size int64, err error) {
	began := time.Now()
	v, err := r.Next.Versions(ctx, k.Address)
	r.observe(k.event(VersionsAsked, time.Since(began), err))
	if err != nil && !errors.Is(err, modproxy.ErrNotFound) {
		return nil, 0, err
	}
	if before == nil {
		before = noListing(k.Address)
	}
	listed := map[string]bool{} // their records need not be read
	if v != nil {
		for _, entry := range v.List {
			listed[entry.Version.String()] = true
		}
	}
	known, errHeld := r.recorded(ctx, k.Address, listed) // first, because for a provider it has all platforms
	if errHeld == nil {
		var held []*holding
		held, errHeld = r.holdings(ctx, k.Address, false, listed)
		known = append(known, held...)
	}
	if errHeld != nil && v == nil { // the error leaves open whether the module exists
		return nil, 0, errHeld
	}
	if errHeld != nil {
		r.observe(k.event(StoreFailed, 0, errHeld))
	}
	l, errMerge := r.merge(k, v, known, before, began)
	if errMerge != nil || l == nil {
		return nil, 0, cmp.Or(errMerge, err)
	}
	for version := range l.unlisted {
		if _, was := before.unlisted[version]; !was {
			r.observe(key{k.Address.At(version)}.event(VersionDropped, 0, nil))
		}
	}
	for version := range before.unlisted {
		if _, is := l.unlisted[version]; !is && l.lists(version) {
			r.observe(key{k.Address.At(version)}.event(VersionListed, 0, nil))
		}
	}
	return l, l.size(), nil
}

// learn implements source. A listed version is not missing.
func (r listings) learn(k key, l *listing) {
	for _, entry := range l.List {
		r.missing.Drop(key{k.Address.At(entry.Version.String())})
	}
}

// merge returns got, the versions of a module as upstream lists them now, together with those in held. If got is nil, upstream
// has no such module. The result is nil if no version remains.
func (r listings) merge(
	k key, got *modproxy.Versions, held []*holding, before *listing, now time.Time,
) (*listing, error) {
	l := &listing{Versions: got, unlisted: map[string]time.Time{}}
	if got == nil {
		l.Versions = modproxy.NoVersions(k.Address)
	}
	listed := map[string]bool{}
	for _, entry := range l.List {
		listed[entry.Version.String()] = true
	}
	var more []modproxy.Listed
	for _, h := range held {
		if listed[h.version] {
			continue
		}
		listed[h.version] = true
		entry, ok := before.Find(h.version)
		if !ok {
			entry, ok = h.entry()
		}
		if ok {
			l.unlisted[h.version] = cmp.Or(before.unlisted[h.version], now)
			more = append(more, entry)
		}
	}
	if got == nil && len(more) == 0 {
		return nil, nil
	}
	with, err := l.With(more)
	if err != nil {
		return nil, err
	}
	answered := *with
	if answered.Time.IsZero() {
		answered.Time = now
	}
	l.Versions = &answered
	return l, nil
}
