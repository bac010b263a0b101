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

// fetches brings what never changes, a few at a time, and remembers a failure for a while; not a passing one that no
// client has waited for: the first that does has a try of its own. Its first fields are set before its use.
type fetches[K question, V interface{ size() int64 }] struct {
	source  fetchSource[K, V]
	work    *flight.Pool
	turns   *turns
	timeout time.Duration // of one fetch
	pause   time.Duration // after a fetch that failed
	observe func(Event)

	flights flight.Group[K, V]
	failed  memory.Cache[K, *modproxy.FetchFailed]
}

type fetchSource[K comparable, V any] interface {
	// sound returns what is kept of k, after all of it was read and found right. Its error is [fs.ErrNotExist] when k
	// has to be fetched.
	sound(ctx context.Context, k K) (V, error)
	// refused returns why k must not be fetched, or nil.
	refused(ctx context.Context, k K) error
	fetch(ctx context.Context, k K) (V, error)
	// holds reports whether a fetch that failed would fail again.
	holds(ctx context.Context, k K, failed *modproxy.FetchFailed) bool
}

const (
	fixedPause   = 24 * time.Hour  // after a fetch that failed with what cannot change
	storagePause = 5 * time.Second // after a fetch that the storage failed
	// passingPause is for a fetch that failed with a temporary error, after which clients are told to come back.
	passingPause = 2 * time.Second
)

// begin starts the fetch of k, unless it is under way, or k is kept and sound.
func (f *fetches[K, V]) begin(ctx context.Context, k K) (*flight.Call[V], error) {
	return f.flights.Join(ctx, k, func(ctx context.Context) (V, error) {
		v, err := f.source.sound(ctx, k)
		switch {
		case err == nil:
			return v, nil
		case !errors.Is(err, fs.ErrNotExist):
			return v, k.wrap("package", settle(err))
		}
		if err := f.failure(ctx, k); err != nil {
			return v, err
		}
		turn, err := f.turn(ctx, k)
		if err != nil {
			return v, k.wrap("package", err)
		}
		defer turn.Give()
		remember := f.failed.Begin(k)
		switch v, err = f.inTurn(ctx, k, turn); {
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

// failure returns why k is not fetched again yet, or nil.
func (f *fetches[K, V]) failure(ctx context.Context, k K) error {
	failed, ok := f.failed.Get(k)
	switch {
	case !ok, !time.Now().Before(failed.Again):
		return nil
	case !f.source.holds(ctx, k, failed):
		f.failed.Drop(k)
		return nil
	}
	return failed
}

// turn waits for a turn to fetch k, which may be refused by then.
func (f *fetches[K, V]) turn(ctx context.Context, k K) (*slots.Slot, error) {
	waiting, cancel := f.work.Detach(ctx, 0)
	defer cancel()
	waiting, stop := wanted(waiting)
	defer stop()
	turn, err := f.turns.take(waiting, k.publisher())
	if err != nil {
		return nil, err
	}
	if err := f.source.refused(ctx, k); err != nil {
		turn.Give()
		return nil, settle(err)
	}
	return turn, nil
}

// inTurn fetches k.
func (f *fetches[K, V]) inTurn(ctx context.Context, k K, turn *slots.Slot) (v V, err error) {
	ctx, cancel := f.work.Detach(ctx, f.timeout)
	defer cancel()
	ctx, release := f.turns.hold(ctx, turn)
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
	case err != nil && context.Cause(ctx) == errDrips:
		return v, errDrips
	case err != nil && context.Cause(ctx) == errUnwanted:
		return v, errUnwanted
	case err != nil && f.work.Ends(ctx):
		return v, k.wrap("package", flight.ErrClosed)
	}
	return v, late(ctx, err, f.timeout)
}

// fail returns what those are told that wait for a fetch of k that ended with err: a [modproxy.FetchFailed], unless
// it was stopped.
func (f *fetches[K, V]) fail(k K, err error) error {
	var storage *store.StorageError
	var full *modproxy.NoSpace
	var fixed *modproxy.Fixed
	settled, pause := settle(err), f.pause
	switch {
	case errors.Is(err, flight.ErrClosed), f.work.Context().Err() != nil:
		return k.wrap("package", flight.ErrClosed)
	case errors.As(err, &storage), errors.As(settled, &full):
		pause = min(pause, storagePause)
	case errors.As(err, &fixed):
		pause = max(pause, fixedPause)
	case holdFor(err) > 0:
		pause = max(passingPause, holdFor(err))
	case temporary(err):
		pause = min(pause, passingPause)
	}
	now := time.Now()
	return &modproxy.FetchFailed{Time: now, Again: now.Add(pause), Err: k.wrap("package", settled)}
}
