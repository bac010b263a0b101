package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Package opens the content of one version. A package that is not stored, or is damaged, is downloaded. The download continues
// when ctx ends, and must have the content in the ledger. The bytes are verified while they are read, see [store.Store.Open].
// The release of a provider is requested again when Next lists more platforms than the release has.
//
// Errors: [modproxy.FetchFailed] with those of Next; [modproxy.ErrChanged] if the content differs from the ledger;
// [modproxy.NotCached] if the package is not stored and the registry is offline.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	k := key{v}
	var p *StoredPackage
	var err error = fs.ErrNotExist
	fetches := r.fetches(k)
	if !fetches.flights.IsRunning(k) { // a stored package that is being downloaded was found damaged
		if p, err = r.cached(ctx, k); err == nil {
			p = r.renewed(ctx, k, p)
		}
	}
	for try := 0; ; try++ {
		if err == nil {
			var body modproxy.Body
			if body, err = r.Store.Open(ctx, p.Digest, p.Size); err == nil {
				r.useRelease(ctx, k)
				return p.opened(body), nil
			}
			r.records.Drop(k)
		}
		if !lost(err) || try == maxTries { // it may be evicted a moment after the download
			return nil, k.wrap("package", settleIn(ctx, err))
		}
		call, errBegin := fetches.begin(ctx, k)
		if errBegin != nil {
			return nil, k.wrap("package", errBegin)
		}
		var partial <-chan struct{}
		if modproxy.AllowsPartial(ctx) && !r.whole.Load() {
			partial = call.Published()
		}
		leave := call.Hold(ctx)
		select {
		case <-call.Done():
			leave()
		case <-partial:
			p, err := (&arrival{r.Store, call}).open(ctx, leave)
			if err != nil {
				return nil, k.wrap("package", settleIn(ctx, err))
			}
			return p, nil
		case <-ctx.Done():
			leave()
			if last := call.LastError(); last != nil {
				modproxy.ReportError(ctx, last)
			}
			return nil, k.wrap("package", ctx.Err())
		}
		if p, err = call.Result(); err != nil {
			return nil, err
		}
	}
}

// lost reports whether err means that a package is not stored, or not in its original form.
func lost(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrUnreadable)
}

// packages is the source of packages.
type packages struct{ *Registry }

// verified implements fetchSource. An unreadable package is downloaded again. Offline it stays, because it may become readable
// again.
func (r packages) verified(ctx context.Context, k key) (*StoredPackage, error) {
	p, err := r.load(ctx, k)
	if err == nil {
		err = r.Store.Check(ctx, p.Digest)
	}
	switch {
	case r.Next != nil && lost(err):
		return nil, fs.ErrNotExist
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrDamaged): // a damaged blob is in quarantine now
		return nil, r.notCached(ctx, k)
	}
	return p, err
}

// failsAgain implements fetchSource. An operator may have accepted refused content since.
func (r packages) failsAgain(ctx context.Context, k key, failed *modproxy.FetchFailed) bool {
	if !errors.Is(failed, modproxy.ErrChanged) {
		return true
	}
	rec, err := r.Ledger.Lookup(ctx, k.Ref)
	return err != nil || rec.Time.Before(failed.Time.Truncate(time.Second)) // the precision of the ledger
}

// denied implements fetchSource.
func (r packages) denied(ctx context.Context, k key) error {
	if r.Gate == nil {
		return nil
	}
	return r.Gate.CheckFetch(ctx, k.Ref)
}

// fetch implements fetchSource. A version that neither its registry nor its recorded source has is not listed for a while.
func (r packages) fetch(ctx context.Context, k key) (p *StoredPackage, err error) {
	switch k.Kind() {
	case modproxy.Provider:
		p, err = r.fetchOfProvider(ctx, k)
	case modproxy.Module:
		p, err = r.fetchOfModule(ctx, k)
	}
	if errors.Is(err, modproxy.ErrNotFound) {
		r.gone.Add(k, true, goneFor, 0)
		r.versions.expire(keyOf(k.Address), func(l *listing) bool {
			_, unlisted := l.unlisted[k.FullVersion()]
			return !unlisted
		})
	}
	return p, err
}

// fetchOfModule is fetch for modules.
func (r packages) fetchOfModule(ctx context.Context, k key) (*StoredPackage, error) {
	defer r.located.Drop(k)
	loc, ok := r.located.Get(k) // the location that clients received, or receive meanwhile
	if !ok {
		var err error
		if loc, err = r.askLocation(ctx, k); err != nil {
			return nil, err
		}
	}
	p, err := r.Next.Package(ctx, k.Ref)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if _, subdir := loc.SplitGlob(); p.Subdir != subdir {
		return nil, fmt.Errorf("%w: the module's directory in the package was %q before, and is %q now",
			modproxy.ErrChanged, subdir, p.Subdir)
	}
	return r.keep(ctx, k, p)
}

// fetchOfProvider is fetch for providers, whose packages need no location. Callers that wait receive the bytes that have
// arrived.
func (r packages) fetchOfProvider(ctx context.Context, k key) (stored *StoredPackage, err error) {
	end := r.holdRelease(ctx, k)
	defer func() { end(err == nil) }()
	p, err := r.Next.Package(modproxy.AllowPartial(ctx), k.Ref)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if p.Partial != nil {
		if err := r.Store.Room(ctx, p.Size, false); err != nil {
			return nil, err
		}
		partial := packageOf(k, p)
		partial.arrival = p.Partial
		r.fetches(k).flights.Publish(k, partial)
		if p.Facts, err = p.Partial.Complete(ctx); err != nil {
			return nil, err
		}
	}
	stored, err = r.keep(ctx, k, p)
	if err == nil && k.IsListed() { // other versions are on no list
		r.versions.expire(keyOf(k.Address), func(l *listing) bool { return l.lists(k.Version) })
	}
	return stored, err
}

// packageOf returns the record of p.
func packageOf(k key, p *modproxy.Package) *StoredPackage {
	stored := &StoredPackage{
		Ref: k.Ref, Digest: p.Digest, Sum: p.Sum, Size: p.Size, Notes: p.Notes, Fetched: p.Time,
		Subdir: p.Subdir, Source: p.Source, Facts: p.Facts,
	}
	if stored.Fetched.IsZero() {
		stored.Fetched = time.Now()
	}
	return stored
}

// keep stores a downloaded package. If another process stores it at the same time, keep returns that one.
func (r packages) keep(ctx context.Context, k key, p *modproxy.Package) (*StoredPackage, error) {
	stored := packageOf(k, p)
	rec, err := stored.record()
	if err != nil {
		return nil, err
	}
	put := func() error {
		switch old, err := r.Store.Records.Get(ctx, rec.Ref); {
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrDamaged):
			rec.Revision = old.Revision
		default:
			return &store.StorageError{Err: err}
		}
		_, err := r.Store.Keep(ctx, rec, store.Content{Digest: p.Digest, Size: p.Size, Reader: p.Body})
		switch {
		case err == nil:
			r.useRelease(ctx, k)
			return nil
		case errors.Is(err, store.ErrDamaged):
			return fmt.Errorf("%w: package: %w", modproxy.ErrInvalid, err)
		case errors.Is(err, fs.ErrNotExist): // another process removed the blob meanwhile
			return &store.StorageError{Err: err}
		}
		return err
	}
	reread := func() (done bool, err error) {
		if other, err := r.load(ctx, k); err == nil {
			stored = other
			return true, nil
		}
		_, err = p.Seek(0, io.SeekStart)
		return false, err
	}
	if err := putAgain(put, reread); err != nil {
		return nil, err
	}
	return stored, nil
}
