package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
)

// Location says where the package of one version is. Of a kept package only the
// Subdir is answered, and Next is not asked, not even when its blob must be
// fetched again. Otherwise Next is asked, and the package is fetched in the
// background from then on; it is waited for a little, so that a fetch that fails soon
// is told of at once: clients show a person what is answered to this question, and
// nothing but the status of what Package answers with. A version need not be listed: when Next has one that
// the kept document does not list, the next question for the versions asks Next.
//
// Errors: those of Next; [modproxy.FetchFailed] after a fetch that failed, until
// it will be tried again; [modproxy.RetryLater] when Next takes longer than Wait
// or than ctx; [modproxy.ErrUnavailable] when offline and not kept.
func (r *Registry) Location(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Location, error) {
	m, version := v.Module, v.Version
	r.once.Do(r.start)
	asked := time.Now()
	k := key{m, version}
	rec, err := r.record(k)
	switch {
	case err == nil:
		return modproxy.Location{Subdir: rec.Subdir, Kept: true}, nil
	case errors.Is(err, fs.ErrNotExist) && r.Next == nil:
		return modproxy.Location{}, k.wrap("location", errOffline)
	case rec == nil && !errors.Is(err, fs.ErrNotExist):
		return modproxy.Location{}, k.wrap("location", err)
	}
	if err := r.failed.get(k); err != nil {
		return modproxy.Location{}, err
	}
	if rec != nil { // but not its blob
		if r.Next == nil && r.removed(rec) {
			return modproxy.Location{}, k.wrap("location", errEvicted)
		}
		return r.fetchSoon(ctx, k, modproxy.Location{Subdir: rec.Subdir}, asked)
	}
	if loc, ok := r.located.Get(k); ok {
		return r.fetchSoon(ctx, k, loc, asked)
	}
	if err := r.missing.get(k); err != nil {
		return modproxy.Location{}, err
	}
	if err := r.held.get(m); err != nil {
		return modproxy.Location{}, err
	}
	call, err := r.locate(ctx, k)
	if err != nil {
		return modproxy.Location{}, k.wrap("location", err)
	}
	loc, err := call.within(ctx, r.set.wait, "location", k)
	if err != nil || loc.Kept {
		return loc, err
	}
	return r.fetchSoon(ctx, k, loc, asked)
}

// fetchSoon starts the fetch of k, which is at loc, and waits for it a little. It is
// where k is kept, or why that could not be fetched, or loc while it is fetched. While
// a package that was refused for its content is fetched again, the answer is why it
// was: most often it still is.
func (r *Registry) fetchSoon(ctx context.Context, k key, loc modproxy.Location, asked time.Time) (modproxy.Location, error) {
	call, err := r.startFetch(ctx, k)
	if err != nil {
		return modproxy.Location{}, k.wrap("location", err)
	}
	timer := time.NewTimer(time.Until(asked.Add(tellWithin)))
	defer timer.Stop()
	select {
	case <-call.done:
		if call.err != nil {
			return modproxy.Location{}, call.err
		}
		loc.Subdir, loc.Kept = call.value.Subdir, true
		return loc, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := r.failed.last(k); errors.Is(err, modproxy.ErrInvalid) || errors.Is(err, modproxy.ErrChanged) {
		return modproxy.Location{}, err
	}
	return loc, nil
}

// recalled is a package record, and when it was read from the index.
type recalled struct {
	rec *PackageRecord
	at  time.Time
}

func (r *Registry) remember(k key, rec *PackageRecord) { r.records.Add(k, recalled{rec, time.Now()}) }

// record is the record of k, remembered for recallFor at most. Its error is
// [fs.ErrNotExist] when there is none, and comes with the record when there is one whose
// blob is not there.
func (r *Registry) record(k key) (*PackageRecord, error) {
	if known, ok := r.records.Get(k); ok && time.Since(known.at) < recallFor {
		return known.rec, nil
	}
	defer r.relearn(k, r.forgotten(k.Module).Load())
	rec, err := r.Index.Package(k.Module, k.version)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: index: %w", modproxy.ErrUnavailable, err)
	}
	size, err := r.Blobs.Stat(rec.Digest)
	switch {
	case rec.Removed:
		return &rec, ErrDamaged
	case errors.Is(err, fs.ErrNotExist):
		return &rec, ErrDamaged
	case err != nil:
		return &rec, err
	case size != rec.Size:
		return &rec, ErrDamaged
	}
	r.remember(k, &rec)
	return &rec, nil
}

// locate asks Next where the package of k is, unless that is under way, and
// starts the fetch.
func (r *Registry) locate(ctx context.Context, k key) (*call[modproxy.Location], error) {
	return r.locations.join(ctx, r.asking, modproxy.AskerOf(ctx), k, func(ctx context.Context) (modproxy.Location, error) {
		defer r.relearn(k, r.forgotten(k.Module).Load())
		if rec, err := r.record(k); err == nil {
			return modproxy.Location{Subdir: rec.Subdir, Kept: true}, nil
		}
		if err := r.failed.get(k); err != nil {
			return modproxy.Location{}, err
		}
		loc, ok := r.located.Get(k)
		if !ok {
			ctx, cancel := r.asking.detach(ctx, askTimeout)
			defer cancel()
			var err error
			if loc, err = r.askLocation(ctx, k); err != nil {
				return modproxy.Location{}, err
			}
		}
		r.startFetch(ctx, k) // Package starts it when this does not
		return loc, nil
	})
}

// askLocation asks Next and remembers what it says until the fetch has ended.
func (r *Registry) askLocation(ctx context.Context, k key) (modproxy.Location, error) {
	if err := r.missing.get(k); err != nil {
		return modproxy.Location{}, err
	}
	if err := r.held.get(k.Module); err != nil {
		return modproxy.Location{}, err
	}
	asked := time.Now()
	loc, err := r.Next.Location(ctx, k.Module.At(k.version))
	if err != nil {
		err = k.settle("location", late(ctx, err, askTimeout), askTimeout)
	}
	r.observe(Event{Kind: LocationAsked, Module: k.Module, Version: k.version, Duration: time.Since(asked), Err: err})
	switch {
	case err == nil:
		r.located.Add(k, loc)
		r.outdate(k.Module, k.version)
	case errors.Is(err, modproxy.ErrNotFound):
		r.missing.add(k, err, r.set.missing-time.Since(asked))
	default:
		if d := hold(err); d > 0 {
			r.held.add(k.Module, err, d)
		}
	}
	return loc, err
}
