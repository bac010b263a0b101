package cache

import (
	"context"
	"time"
)

// renewPause is how long a release that lacks packages is not asked for again.
const renewPause = 5 * time.Minute

// renewed returns p, a package that is kept, or the newer one that upstream has: a release may have been fetched while its
// publisher was still uploading, and lack packages for platforms that upstream lists. Upstream is waited for a little, and if it
// fails p counts. The ledger decides which packages may come.
func (r *Registry) renewed(ctx context.Context, k key, p *Kept) *Kept {
	if p.Facts.Zips == "" || r.Next == nil || !r.lacks(ctx, k, p) {
		return p
	}
	call, err := r.renewals.Join(ctx, k, func(ctx context.Context) (*Kept, error) {
		if _, known := r.looked.Get(k); known {
			return p, nil
		}
		defer r.looked.Add(k, true, renewPause, 0)
		turn, err := r.packages.turn(ctx, k)
		if err != nil {
			return nil, err
		}
		defer turn.Give()
		defer r.records.Drop(k)
		return r.packages.inTurn(ctx, k, turn)
	})
	if err != nil {
		return p
	}
	if newer, err := waitFor(ctx, call, patience); err == nil {
		return newer
	}
	return p
}

// lacks reports whether upstream lists platforms for which the release p has no package, and was not asked again about it.
func (r *Registry) lacks(ctx context.Context, k key, p *Kept) bool {
	if _, known := r.looked.Get(k); known {
		return false
	}
	a, err := r.versions.read(ctx, keyOf(k.Address))
	if err != nil || a == nil {
		return false
	}
	listed, _ := a.kept.Find(k.Version)
	_, unlisted := a.kept.unlisted[k.Version]
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

// useRelease has the release that k is a package of used after it: a package without its release is of no use, and what was not
// used for longest is evicted first.
func (r *Registry) useRelease(ctx context.Context, k key) {
	if !k.IsArchive() {
		return
	}
	if p, err := r.record(ctx, key{k.Base()}); err == nil {
		if body, err := r.Store.Open(ctx, p.Digest, p.Size); err == nil {
			body.Close()
		}
	}
}

// holdRelease has the release that k is a package of stay while k is fetched, until end is called. If k is kept by then, end
// fetches the release when that is not: another process may have removed it, or nobody have asked for it.
func (r packages) holdRelease(ctx context.Context, k key) (end func(kept bool)) {
	if !k.IsArchive() {
		return func(bool) {}
	}
	release := func() {}
	if p, err := r.record(ctx, key{k.Base()}); err == nil {
		if held, err := r.Store.Hold(ctx, p.Digest); err == nil {
			release = held
		}
	}
	return func(kept bool) {
		defer release()
		if !kept {
			return
		}
		if call, err := r.packages.begin(ctx, key{k.Base()}); err == nil {
			_, _ = call.Wait(ctx) // the next request returns the error, and Observe receives it
		}
	}
}
