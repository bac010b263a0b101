package cache

import (
	"context"
	"time"
)

// renewPause is the pause between two requests for a release that has no packages for some listed platforms.
const renewPause = 5 * time.Minute

// renewed returns p, a stored package, or the newer one of upstream. A release may have been downloaded while its publisher was
// still uploading, and then have no packages for platforms that upstream lists. renewed waits briefly for upstream; if upstream
// fails, it returns p. The ledger decides which packages are allowed.
func (r *Registry) renewed(ctx context.Context, k key, p *StoredPackage) *StoredPackage {
	if p.Facts.Zips == "" || r.Next == nil || !r.lacks(ctx, k, p) {
		return p
	}
	call, err := r.renewals.Join(ctx, k, func(ctx context.Context) (*StoredPackage, error) {
		if _, known := r.refetched.Get(k); known {
			return p, nil
		}
		defer r.refetched.Add(k, true, renewPause, 0)
		slot, err := r.packages.slot(ctx, k)
		if err != nil {
			return nil, err
		}
		defer slot.Give()
		defer r.records.Drop(k)
		return r.packages.download(ctx, k, slot)
	})
	if err != nil {
		return p
	}
	if newer, err := waitFor(ctx, call, clientWait); err == nil {
		return newer
	}
	return p
}

// lacks reports whether upstream lists platforms for which the release p has no package, and received no request for it within
// renewPause.
func (r *Registry) lacks(ctx context.Context, k key, p *StoredPackage) bool {
	if _, known := r.refetched.Get(k); known {
		return false
	}
	a, err := r.versions.read(ctx, keyOf(k.Address))
	if err != nil || a == nil {
		return false
	}
	listed, _ := a.value.Find(k.Version)
	_, unlisted := a.value.unlisted[k.Version]
	zips, err := p.Facts.Zips.All()
	if unlisted || err != nil {
		return false
	}
	for _, platform := range listed.Release().Platforms {
		if _, has := zips[platform]; !has {
			return true
		}
	}
	return false
}

// useRelease marks the release of the package k as used after k: a package without its release is of no use, and the least
// recently used packages are evicted first.
func (r *Registry) useRelease(ctx context.Context, k key) {
	if !k.IsArchive() {
		return
	}
	if p, err := r.cached(ctx, key{k.Base()}); err == nil {
		if body, err := r.Store.Open(ctx, p.Digest, p.Size); err == nil {
			body.Close()
		}
	}
}

// holdRelease keeps the release of the package k from eviction until end is called. If k is then stored and its release is not, end
// downloads the release: another process may have removed it, or no client has requested it.
func (r packages) holdRelease(ctx context.Context, k key) (end func(stored bool)) {
	if !k.IsArchive() {
		return func(bool) {}
	}
	release := func() {}
	if p, err := r.cached(ctx, key{k.Base()}); err == nil {
		if held, err := r.Store.Hold(ctx, p.Digest); err == nil {
			release = held
		}
	}
	return func(stored bool) {
		defer release()
		if !stored {
			return
		}
		if call, err := r.packages.begin(ctx, key{k.Base()}); err == nil {
			_, _ = call.Wait(ctx) // the next request returns the error, and Observe receives it
		}
	}
}
