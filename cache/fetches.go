package cache

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/store"
)

// fetches downloads content that never changes, a few downloads at a time, and remembers failures for a while. It does not
// remember a temporary failure that no client has waited for: the first client that waits causes another attempt. The first
// fields are set before its use.
type fetches[K question, V interface{ size() int64 }] struct {
	source  fetchSource[K, V]
	work    *flight.Pool
	slots   *downloadSlots
	timeout time.Duration // of one download
	pause   time.Duration // after a failed download
	observe func(Event)

	flights flight.Group[K, V]
	failed  memory.Cache[K, *modproxy.FetchFailed]
}

type fetchSource[K comparable, V any] interface {
	// verified returns the stored content of k after reading and verifying all of it. The error is [fs.ErrNotExist] if k must
	// be downloaded.
	verified(ctx context.Context, k K) (V, error)
	// denied returns why k must not be downloaded, or nil.
	denied(ctx context.Context, k K) error
	fetch(ctx context.Context, k K) (V, error)
	// failsAgain reports whether a download that failed would fail again.
	failsAgain(ctx context.Context, k K, failed *modproxy.FetchFailed) bool
}

const (
	permanentPause = 24 * time.Hour  // after a failure whose cause cannot change
	storagePause   = 5 * time.Second // after an error of the storage
	// temporaryPause follows a download that failed with a temporary error. Clients retry after it.
	temporaryPause = 2 * time.Second
)

// begin starts the download of k, unless it is running, or k is stored and verified.
func (f *fetches[K, V]) begin(ctx context.Context, k K) (*flight.Call[V], error) {
	return f.flights.Join(ctx, k, func(ctx context.Context) (V, error) {
		v, err := f.source.verified(ctx, k)
		switch {
		case err == nil:
			return v, nil
		case !errors.Is(err, fs.ErrNotExist):
			return v, k.wrap("package", settle(err))
		}
		if err := f.failure(ctx, k); err != nil {
			return v, err
		}
		slot, err := f.slot(ctx, k)
		if err != nil {
			return v, k.wrap("package", err)
		}
		defer slot.Give()
		remember := f.failed.Begin(k)
		switch v, err = f.download(ctx, k, slot); {
		case err == nil:
			f.failed.Drop(k)
			return v, nil
		case err == errUnwanted:
			return v, k.wrap("package", retrySoon(err))
		}
		err = f.fail(k, err)
		if failed, ok := errors.AsType[*modproxy.FetchFailed](err); ok && !(modproxy.IsBackground(ctx) && passing(failed)) {
			remember(failed, max(failed.Again.Sub(failed.Time), f.pause), 0)
		}
		return v, err
	})
}

// failure returns the failure after which k is not downloaded again yet, or nil.
func (f *fetches[K, V]) failure(ctx context.Context, k K) error {
	failed, ok := f.failed.Get(k)
	switch {
	case !ok, !time.Now().Before(failed.Again):
		return nil
	case !f.source.failsAgain(ctx, k, failed):
		f.failed.Drop(k)
		return nil
	}
	return failed
}

// slot waits for a slot to download k. The policy may deny k by then.
func (f *fetches[K, V]) slot(ctx context.Context, k K) (*slots.Slot, error) {
	waiting, cancel := f.work.Detach(ctx, 0)
	defer cancel()
	waiting, stop := wanted(waiting)
	defer stop()
	slot, err := f.slots.take(waiting, k.publisher())
	if err != nil {
		return nil, err
	}
	if err := f.source.denied(ctx, k); err != nil {
		slot.Give()
		return nil, settle(err)
	}
	return slot, nil
}

// download downloads k with a slot.
func (f *fetches[K, V]) download(ctx context.Context, k K, slot *slots.Slot) (v V, err error) {
	ctx, cancel := f.work.Detach(ctx, f.timeout)
	defer cancel()
	ctx, release := f.slots.hold(ctx, slot)
	defer release()
	f.observe(k.event(FetchStarted, 0, nil))
	started := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = k.wrap("package", modproxy.Fault(p))
		}
		e := k.event(FetchEnded, time.Since(started), err)
		if err == nil {
			e.Bytes = v.size()
		}
		f.observe(e)
	}()
	v, err = f.source.fetch(ctx, k)
	switch {
	case err != nil && context.Cause(ctx) == errTooSlow:
		return v, errTooSlow
	case err != nil && context.Cause(ctx) == errUnwanted:
		return v, errUnwanted
	case err != nil && f.work.Ends(ctx):
		return v, k.wrap("package", flight.ErrClosed)
	}
	return v, late(ctx, err, f.timeout)
}

// fail returns the error for callers that wait for a download of k that ended with err. It is a [modproxy.FetchFailed], unless
// the download was stopped.
func (f *fetches[K, V]) fail(k K, err error) error {
	var storage *store.StorageError
	var full *modproxy.NoSpace
	var fixed *modproxy.PermanentContent
	settled, pause := settle(err), f.pause
	switch {
	case errors.Is(err, flight.ErrClosed), f.work.Context().Err() != nil:
		return k.wrap("package", flight.ErrClosed)
	case errors.As(err, &storage), errors.As(settled, &full):
		pause = min(pause, storagePause)
	case errors.As(err, &fixed):
		pause = max(pause, permanentPause)
	case holdFor(err) > 0:
		pause = max(temporaryPause, holdFor(err))
	case temporary(err):
		pause = min(pause, temporaryPause)
	}
	now := time.Now()
	return &modproxy.FetchFailed{Time: now, Again: now.Add(pause), Err: k.wrap("package", settled)}
}
