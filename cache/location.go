package cache

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
)

// Location says where the package of one version is. Of a kept package only the Subdir is answered, and Next is not
// asked. Otherwise Next is asked, and the package is fetched in the background from then on. The fetch is waited for a
// little, because clients show a person the error of this question, and of Package nothing but the status. If Next has
// a version that the kept document does not list, the next question for the versions asks Next.
//
// Of a provider, Next is not asked, and the fetch is waited for until it begins to arrive.
//
// Errors: those of Next; [modproxy.FetchFailed] after a fetch that failed, until it will be tried again;
// [modproxy.RetryLater] when Next takes longer than three seconds or than ctx; [modproxy.NotKept] when offline and
// not kept.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	r.once.Do(r.start)
	asked := time.Now()
	k := key{v}
	loc, known, err := r.known(ctx, k)
	if !known && err == nil && k.IsProvider() {
		return loc, k.wrap("location", r.beginSoon(ctx, k, asked))
	}
	if !known && err == nil {
		loc, err = r.locate(ctx, k)
	}
	if err == nil && !loc.Kept {
		loc, err = r.fetchSoon(ctx, k, loc, asked)
	}
	return loc, k.wrap("location", err)
}

// known returns where k is, as far as that is known without asking Next, or why Next is not asked.
func (r *Registry) known(ctx context.Context, k key) (loc modproxy.Location, known bool, err error) {
	p, err := r.record(ctx, k)
	if errors.Is(err, fs.ErrNotExist) && r.Next == nil {
		err = r.notKept(ctx, k)
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
	return loc, false, r.refused(k)
}

// refused returns why Next is not asked where k is, or nil.
func (r *Registry) refused(k key) error {
	if err, ok := r.missing.Get(k); ok {
		return err
	}
	if err, ok := r.versions.held.Get(keyOf(k.Address)); ok {
		return err
	}
	return nil
}

// fetchSoon starts the fetch of k, which is at loc, and waits for it a little. It returns where k is kept, or why it
// could not be fetched, or loc meanwhile; or why it could not be the time before, if that was its content, which it most often
// still is, or trouble that goes on.
func (r *Registry) fetchSoon(
	ctx context.Context, k key, loc modproxy.Location, asked time.Time,
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
	case <-time.After(time.Until(asked.Add(tellWithin))):
	case <-ctx.Done():
	}
	failed, _ := r.packages.failed.Get(k) // or the time before
	if failed != nil && (errors.Is(failed, modproxy.ErrInvalid) || errors.Is(failed, modproxy.ErrChanged) || temporary(failed)) {
		return modproxy.Location{}, failed
	}
	return loc, nil
}

// beginSoon starts the fetch of k, a provider's package, and waits a little until it arrives or has failed: of the package
// itself clients show a person nothing but the status.
func (r *Registry) beginSoon(ctx context.Context, k key, asked time.Time) error {
	call, err := r.fetches(k).begin(ctx, k)
	if err != nil {
		return err
	}
	select {
	case <-call.Done():
		_, err := call.Result()
		return err
	case <-call.Published():
	case <-time.After(time.Until(asked.Add(tellWithin))):
	case <-ctx.Done():
	}
	return nil
}

// locate asks Next where the package of k is, unless that is under way, and starts the fetch.
func (r *Registry) locate(ctx context.Context, k key) (loc modproxy.Location, err error) {
	call, err := r.locations.Join(ctx, k, func(ctx context.Context) (modproxy.Location, error) {
		if loc, known, err := r.known(ctx, k); known || err != nil {
			return loc, err
		}
		ctx, cancel := r.asking.Detach(ctx, askTimeout)
		defer cancel()
		loc, err := r.askLocation(ctx, k)
		if err == nil {
			r.packages.begin(ctx, k) // Package starts it when this does not
		}
		return loc, err
	})
	if err != nil {
		return loc, err
	}
	return waitFor(ctx, call, patience)
}

// askLocation asks Next and remembers what it says until the fetch has ended.
func (r *Registry) askLocation(ctx context.Context, k key) (modproxy.Location, error) {
	if err := r.refused(k); err != nil {
		return modproxy.Location{}, err
	}
	located, missing := r.located.Begin(k), r.missing.Begin(k)
	asked := time.Now()
	loc, err := r.Next.Location(ctx, k.Ref)
	if err != nil {
		err = k.wrap("location", settle(late(ctx, err, askTimeout)))
	}
	r.observe(k.event(LocationAsked, time.Since(asked), err))
	switch {
	case err == nil:
		located(loc, r.FetchTimeout, 0)
		if k.IsListed() { // else nobody lists it
			r.versions.outdate(keyOf(k.Address), func(l *listing) bool { return l.lists(k.Version) })
		}
	case errors.Is(err, modproxy.ErrNotFound):
		missing(err, r.Missing-time.Since(asked), 0)
	default:
		r.versions.held.Add(keyOf(k.Address), err, holdFor(err), 0)
	}
	return loc, err
}
