package cache

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
)

// Location returns the location of one version. For a stored package, the result has an empty URL, the Subdir and Kept, and Next
// receives no request. Otherwise Location asks Next, and starts the download of the package in the background.
//
// Unlike other registries, a cache then waits for the download, until 3.5 seconds after the call: clients show users the error of
// this request, and only the status of the request for the package. If the download has ended by then, Location returns its error, or
// a location with Kept. Otherwise it returns the location, and the download continues. A layer above replaces the location by a path
// of this proxy, as package rewrite does.
//
// If Next has a version that the stored document does not list, the next request for the versions asks Next.
//
// For a provider, Location does not ask Next, and waits for as long until the first bytes of the package arrive or the download fails.
//
// Errors: those of Next; [modproxy.FetchFailed] after a failed download, until the next attempt; [modproxy.RetryLater] if Next
// takes longer than three seconds or than ctx; [modproxy.NotCached] if the package is not stored and the registry is offline.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	began := time.Now()
	k := key{v}
	loc, known, err := r.known(ctx, k)
	if !known && err == nil {
		switch k.Kind() {
		case modproxy.Provider:
			return loc, k.wrap("location", r.beginSoon(ctx, k, began))
		case modproxy.Module:
			loc, err = r.locate(ctx, k)
		}
	}
	if err == nil && !loc.Kept {
		loc, err = r.fetchSoon(ctx, k, loc, began)
	}
	return loc, k.wrap("location", err)
}

// known returns the location of k if it is known without a request to Next, or the reason why Next receives no request.
func (r *Registry) known(ctx context.Context, k key) (loc modproxy.Location, known bool, err error) {
	p, err := r.cached(ctx, k)
	if errors.Is(err, fs.ErrNotExist) && r.Next == nil {
		err = r.notCached(ctx, k)
	}
	switch {
	case err == nil:
		return modproxy.Location{Subdir: p.Subdir, Kept: true}, true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return loc, false, settleIn(ctx, err)
	}
	if err := r.fetches(k).failure(ctx, k); err != nil {
		return loc, false, err
	}
	if loc, known = r.located.Get(k); known {
		return loc, true, nil
	}
	return loc, false, r.knownError(k)
}

// knownError returns the remembered error for which Next receives no request for the location of k, or nil.
func (r *Registry) knownError(k key) error {
	if err, ok := r.missing.Get(k); ok {
		return err
	}
	if err, ok := r.versions.retryAfter.Get(keyOf(k.Address)); ok {
		return err
	}
	return nil
}

// fetchSoon starts the download of k from loc, and waits for it briefly. It returns the stored location, or the error of the
// download, or loc if it is still running. If the previous download failed because of its content, which is most likely still
// the same, or with an error that may be temporary, fetchSoon returns that error instead of loc.
func (r *Registry) fetchSoon(
	ctx context.Context, k key, loc modproxy.Location, began time.Time,
) (modproxy.Location, error) {
	call, err := r.packages.begin(ctx, k)
	if err != nil {
		return modproxy.Location{}, err
	}
	defer call.Hold(ctx)()
	select {
	case <-call.Done():
		p, err := call.Result()
		if err != nil {
			return modproxy.Location{}, err
		}
		loc.Subdir, loc.Kept = p.Subdir, true
		return loc, nil
	case <-time.After(time.Until(began.Add(locateWithin))):
	case <-ctx.Done():
	}
	failed, _ := r.packages.failed.Get(k) // the previous one, if this one is running
	if failed != nil && (errors.Is(failed, modproxy.ErrInvalid) || errors.Is(failed, modproxy.ErrChanged) || temporary(failed)) {
		return modproxy.Location{}, failed
	}
	return loc, nil
}

// beginSoon starts the download of k, a provider's package, and waits briefly until its first bytes arrive or it fails: for the
// package itself, clients show users only the status.
func (r *Registry) beginSoon(ctx context.Context, k key, began time.Time) error {
	call, err := r.fetches(k).begin(ctx, k)
	if err != nil {
		return err
	}
	select {
	case <-call.Done():
		_, err := call.Result()
		return err
	case <-call.Published():
	case <-time.After(time.Until(began.Add(locateWithin))):
	case <-ctx.Done():
	}
	return nil
}

// locate asks Next for the location of k, unless a request is running, and starts the download.
func (r *Registry) locate(ctx context.Context, k key) (loc modproxy.Location, err error) {
	call, err := r.locations.Join(ctx, k, func(ctx context.Context) (modproxy.Location, error) {
		if loc, known, err := r.known(ctx, k); known || err != nil {
			return loc, err
		}
		ctx, cancel := r.asking.Detach(ctx, requestTimeout)
		defer cancel()
		loc, err := r.askLocation(ctx, k)
		if err == nil {
			r.packages.begin(ctx, k) // if the pool is full, Package starts it
		}
		return loc, err
	})
	if err != nil {
		return loc, err
	}
	return waitFor(ctx, call, clientWait)
}

// askLocation asks Next, and remembers the answer until the download has ended.
func (r *Registry) askLocation(ctx context.Context, k key) (modproxy.Location, error) {
	if err := r.knownError(k); err != nil {
		return modproxy.Location{}, err
	}
	located, missing := r.located.Begin(k), r.missing.Begin(k)
	began := time.Now()
	loc, err := r.Next.Location(ctx, k.Ref)
	if err != nil {
		err = k.wrap("location", settle(late(ctx, err, requestTimeout)))
	}
	r.observe(k.event(LocationAsked, time.Since(began), err))
	switch {
	case err == nil:
		located(loc, r.FetchTimeout, 0)
		if k.IsListed() { // other versions are on no list
			r.versions.expire(keyOf(k.Address), func(l *listing) bool { return l.lists(k.Version) })
		}
	case errors.Is(err, modproxy.ErrNotFound):
		missing(err, r.Missing-time.Since(began), 0)
	default:
		r.versions.retryAfter.Add(keyOf(k.Address), err, holdFor(err), 0)
	}
	return loc, err
}
