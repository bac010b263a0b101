// Package slots bounds how many operations run at the same time, and decides which is next.
//
// A [Queue] shares its slots between owners: clients, or publishers of packages.
//
//	queue := slots.New(8, 4, 1, 100)
//	slot, err := queue.Await(ctx, client, modproxy.BroughtForward(ctx))
//	if err != nil { … }
//	defer slot.Give()
//
// A [Semaphore] has slots without owners.
//
// Invariant: an owner never takes more than its share from others, however many slots it takes or waits for. A free slot goes
// to the waiting owner with the fewest slots. If the queue is full, the owner with the most waiting requests loses the last one of
// them, whose caller receives [ErrCrowded].
//
// Background requests come after all other requests, of any owner. A background request takes a slot only if a quarter of all slots
// stays free, and a quarter of its owner's share. They do not starve: while they wait, and others have been given seven slots since
// the last one for the background, the next free slot goes to the background. At most one slot at a time is given in this way.
package slots

import "context"

// Semaphore is a number of slots for operations that have no owners. It serves requests in their order. It is safe for
// concurrent use.
type Semaphore chan struct{}

// NewSemaphore returns n slots.
func NewSemaphore(n int) Semaphore { return make(Semaphore, n) }

// Take waits for a slot. The caller must call give when it no longer needs the slot. The error is the cause of ctx if ctx ended.
func (s Semaphore) Take(ctx context.Context) (give func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case s <- struct{}{}:
		return s.give, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Try takes a slot if one is free. It reports whether it did. If so, the caller must call give.
func (s Semaphore) Try() (give func(), ok bool) {
	select {
	case s <- struct{}{}:
		return s.give, true
	default:
		return nil, false
	}
}

// Taken returns the number of slots that are taken now.
func (s Semaphore) Taken() int { return len(s) }

func (s Semaphore) give() { <-s }
