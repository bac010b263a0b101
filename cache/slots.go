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

// downloadSlots bound the downloads that run at the same time. A publisher, which is a namespace of a registry, has at most
// three quarters of the slots. The last eighth is for publishers that have none, so that packages that make no progress do not
// hold up those of others for long.
type downloadSlots struct {
	*slots.Queue
	yielded atomic.Int64 // downloads that were ended for others and still have their slot
}

func newDownloadSlots(n int) *downloadSlots {
	return &downloadSlots{Queue: slots.New(n, max(1, n*3/4), n/8, maxFetching-n)}
}

const (
	// A download receives slowRate bytes a second on average over slowWindow. A slower one ends if others wait.
	slowRate   = 16 << 10
	slowWindow = 30 * time.Second
	// A download that waits for bytes and receives none for so long lends its slot to others until bytes arrive.
	stillAfter = 3 * time.Second
	// A download that no caller waits for ends after so long: at once if it waits for its slot, else if no bytes arrived
	// meanwhile. A client that retries has done so by then.
	unwantedAfter = 10 * time.Second
	lookEvery     = time.Second
)

// errCrowded is about the moment, not about the package.
var errCrowded = errors.New("too many packages are being downloaded or are waiting for it")

// Turn waits for a slot for a download of a package of m that the caller makes itself and does not store in the cache, such as the
// recheck of package ledger. So Config.Fetches bounds them, too; zip archives of
// providers have slots of their own. The download must use the context held, whose
// [modproxy.Meter] counts its bytes. While no bytes arrive, the slot is lent to others. If hardly any bytes arrive while others
// wait, held ends. The caller must call give at the end. Errors: the end of ctx; a [modproxy.RetryLater] if too many downloads
// wait.
func (r *Registry) Turn(ctx context.Context, m modproxy.Address) (held context.Context, give func(), err error) {
	slot, err := r.slots.take(ctx, keyOf(m).publisher())
	if err != nil {
		return nil, nil, err
	}
	held, release := r.slots.hold(ctx, slot)
	return held, func() { release(); slot.Give() }, nil
}

// take waits for a slot of a publisher, or until ctx ends.
func (t *downloadSlots) take(ctx context.Context, publisher string) (*slots.Slot, error) {
	slot, err := t.Await(ctx, publisher, modproxy.BroughtForward(ctx))
	switch {
	case errors.Is(err, errUnwanted):
		return nil, retrySoon(errUnwanted)
	case errors.Is(err, slots.ErrCrowded):
		return nil, retrySoon(fmt.Errorf("%w: most of them of %s", errCrowded, publisher))
	case err != nil:
		return nil, flight.ErrClosed
	}
	return slot, nil
}

// errTooSlow is the error of a download that had to free its slot.
var errTooSlow = fmt.Errorf("%w: download stopped: slower than %d KiB/s for %v while other downloads were waiting",
	modproxy.ErrUnavailable, slowRate>>10, slowWindow)

// errUnwanted is the error of a download that no caller waited for.
var errUnwanted = fmt.Errorf("%w: download stopped: no bytes arrived, and no client was waiting", modproxy.ErrUnavailable)

// hold returns a context for a download that has a slot. The context ends with errTooSlow if others wait and hardly any bytes
// arrive, and with errUnwanted if no caller waits and no bytes arrive. The caller calls release before it gives the slot back.
func (t *downloadSlots) hold(ctx context.Context, slot *slots.Slot) (held context.Context, release func()) {
	meter := &modproxy.Meter{}
	ctx, cancel := context.WithCancelCause(modproxy.WithMeter(ctx, meter))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(ctx, meter, slot, cancel)
	}()
	return ctx, func() {
		cancel(nil)
		<-watched
		if context.Cause(ctx) == errTooSlow {
			t.yielded.Add(-1)
		}
	}
}

// wanted returns a context that ends with errUnwanted when no caller has waited for the call of ctx for unwantedAfter.
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

// watch lends slot, or ends a download with cut, if too few bytes arrive. It ends no more slow downloads than there are others
// that wait. A download that a client waits for does not end for one in the background.
func (t *downloadSlots) watch(ctx context.Context, meter *modproxy.Meter, slot *slots.Slot, cut context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	waiting := func() int { return t.Waiting(modproxy.IsBackground(ctx)) }
	since, before := time.Now(), int64(0) // the start of the window for the rate, and the bytes before it
	moved, last := time.Now(), int64(0)   // when a byte arrived, and the bytes by then
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		received, receiving := meter.Received()
		if received != last || !receiving {
			moved, last = time.Now(), received
			slot.Resume()
		}
		still := time.Since(moved)
		if still >= stillAfter {
			slot.Pause()
		}
		if still >= unwantedAfter && flight.UnwantedFor(ctx) >= unwantedAfter {
			cut(errUnwanted)
		}
		switch over := time.Since(since); {
		case !receiving, waiting() == 0, received-before >= int64(slowRate*slowWindow/time.Second):
			since, before = time.Now(), received
		case over >= slowWindow:
			if t.yielded.Add(1) <= int64(waiting()) {
				cut(errTooSlow)
			}
			if context.Cause(ctx) != errTooSlow { // it has ended by itself, or continues
				t.yielded.Add(-1)
			}
		}
	}
}
