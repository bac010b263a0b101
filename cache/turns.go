package cache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/slots"
)

// turns bound the fetches that run at the same time. A publisher, the namespace of a registry, has three quarters of
// them at most, and the last eighth is for those that have none: packages that do not come to an end do not hold up
// those of others for long.
type turns struct {
	*slots.Queue
	yielded atomic.Int64 // fetches that were ended for others and still have their turn
}

func newTurns(n int) *turns {
	return &turns{Queue: slots.New(n, max(1, n*3/4), n/8, maxFetching-n)}
}

const (
	// A fetch receives slowRate bytes a second, on average over slowWindow, or gives up its turn if others wait.
	slowRate   = 16 << 10
	slowWindow = 30 * time.Second
	// A fetch that waits for bytes and receives none for so long lends its turn to others until some come.
	stillAfter = 3 * time.Second
	// A fetch that no caller waits for ends after so long: at once while it waits for its turn, else when no bytes came meanwhile.
	// A client that comes back has done so by then.
	unwantedAfter = 10 * time.Second
	lookEvery     = time.Second
)

// errCrowded is about the moment, and not about the package.
var errCrowded = errors.New("too many packages are being fetched or wait for a turn")

// Turn waits for a turn to fetch a package of m, for a fetch that is not for the cache: Fetches bounds all of them. The fetch uses
// held, whose turn is lent while nothing comes, and which ends when hardly anything does while others wait. give gives the turn
// back. Its error is that ctx ended, or a [modproxy.RetryLater] when too many wait.
func (r *Registry) Turn(ctx context.Context, m modproxy.Address) (held context.Context, give func(), err error) {
	r.once.Do(r.start)
	turn, err := r.turns.take(ctx, keyOf(m).publisher())
	if err != nil {
		return nil, nil, err
	}
	held, release := r.turns.hold(ctx, turn)
	return held, func() { release(); turn.Give() }, nil
}

// take waits for a turn of a publisher, or until ctx ends.
func (t *turns) take(ctx context.Context, publisher string) (*slots.Slot, error) {
	turn, err := t.Await(ctx, publisher, modproxy.BroughtForward(ctx))
	switch {
	case errors.Is(err, errUnwanted):
		return nil, retrySoon(errUnwanted)
	case errors.Is(err, slots.ErrCrowded):
		return nil, retrySoon(fmt.Errorf("%w: most of them of %s", errCrowded, publisher))
	case err != nil:
		return nil, flight.ErrClosed
	}
	return turn, nil
}

// errDrips is the error of a fetch that gave up its turn.
var errDrips = fmt.Errorf("%w: it came at less than %d KiB/s for %v, while other packages waited for their turn",
	modproxy.ErrUnavailable, slowRate>>10, slowWindow)

// errUnwanted is the error of a fetch that nobody waited for.
var errUnwanted = fmt.Errorf("%w: it did not come, and nobody waited for it any more", modproxy.ErrUnavailable)

// hold returns a context for a fetch that has a turn. It ends with errDrips when others wait and hardly anything comes, and with
// errUnwanted when nobody waits for it and nothing comes. release is called before the turn is given back.
func (t *turns) hold(ctx context.Context, turn *slots.Slot) (held context.Context, release func()) {
	meter := &modproxy.Meter{}
	ctx, cancel := context.WithCancelCause(modproxy.WithMeter(ctx, meter))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(ctx, meter, turn, cancel)
	}()
	return ctx, func() {
		cancel(nil)
		<-watched
		if context.Cause(ctx) == errDrips {
			t.yielded.Add(-1)
		}
	}
}

// wanted returns a context that ends with errUnwanted when nobody has waited for a while for the call that ctx is of.
func wanted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for flight.UnwantedFor(ctx) < unwantedAfter {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel(errUnwanted)
	}()
	return ctx, func() { cancel(nil) }
}

// watch lends turn, and ends a fetch by cut, when too little comes. One that is too slow is not ended when as many are ending as others
// wait. One that a client waits for does not give way to what is in the background.
func (t *turns) watch(ctx context.Context, meter *modproxy.Meter, turn *slots.Slot, cut context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	waiting := func() int { return t.Waiting(modproxy.IsBackground(ctx)) }
	since, before := time.Now(), int64(0) // of the window for the rate
	moved, last := time.Now(), int64(0)   // when a byte came
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		received, receiving := meter.Received()
		if received != last || !receiving {
			moved, last = time.Now(), received
			turn.Resume()
		}
		still := time.Since(moved)
		if still >= stillAfter {
			turn.Pause()
		}
		if still >= unwantedAfter && flight.UnwantedFor(ctx) >= unwantedAfter {
			cut(errUnwanted)
		}
		switch over := time.Since(since); {
		case !receiving, waiting() == 0, received-before >= int64(slowRate*slowWindow/time.Second):
			since, before = time.Now(), received
		case over >= slowWindow:
			if t.yielded.Add(1) <= int64(waiting()) {
				cut(errDrips)
			}
			if context.Cause(ctx) != errDrips { // it has ended by itself, or goes on
				t.yielded.Add(-1)
			}
		}
	}
}
