// Package fair shares turns among owners: clients, or publishers.
//
// Invariant: an owner that takes many turns, or waits for many, takes no more than its share from the others. A turn
// goes to the owner that has the fewest; where too many wait, one of the owner that waits for most is sent away.
package fair

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrCrowded tells that too many wait for a turn.
var ErrCrowded = errors.New("too many wait for their turn")

// Turns are the turns that are shared. They are safe for concurrent use.
type Turns struct {
	share int // of one owner, at most
	spare int // turns that go only to owners that have none
	queue int // of those that wait, at most

	mu      sync.Mutex
	free    int
	waiting int
	owners  map[string]*owner // that have a turn or wait
	grants  uint64
}

// owner has turns, or waits for some.
type owner struct {
	held  int
	last  uint64       // when it was given a turn; of those with as many turns it was longest ago for the next
	queue []chan error // each is for one turn, and gets nil with it, or an error
}

// New returns n turns, of which one owner has share at most, and the last spare are for owners that have none. No more
// than queue wait.
func New(n, share, spare, queue int) *Turns {
	return &Turns{share: share, spare: spare, queue: queue, free: n, owners: map[string]*owner{}}
}

// Take waits for a turn of the named owner, which is to be given back. The error is [ErrCrowded], or the cause of ctx
// when that ended.
func (t *Turns) Take(ctx context.Context, name string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	turn := t.join(name)
	select {
	case err := <-turn:
		return err
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owner(name)
	defer t.forget(name, o)
	i := slices.Index(o.queue, turn)
	if i < 0 { // decided a moment ago
		return <-turn
	}
	o.queue = slices.Delete(o.queue, i, i+1)
	t.waiting--
	return context.Cause(ctx)
}

// Try takes a turn of the named owner if that need not wait for it.
func (t *Turns) Try(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owner(name)
	defer t.forget(name, o)
	if len(o.queue) > 0 || !t.may(o) {
		return false
	}
	t.grant(o)
	return true
}

// join takes a turn that is free, or joins those that wait. The result tells how that ends.
func (t *Turns) join(name string) chan error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, turn := t.owner(name), make(chan error, 1)
	switch {
	case len(o.queue) == 0 && t.may(o):
		t.grant(o)
		turn <- nil
	case t.waiting >= t.queue && !t.sendAway(len(o.queue)):
		t.forget(name, o)
		turn <- ErrCrowded
	default:
		o.queue = append(o.queue, turn)
		t.waiting++
	}
	return turn
}

// Give gives back a turn of the named owner.
func (t *Turns) Give(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owners[name]
	o.held--
	t.free++
	t.forget(name, o)
	for next := t.next(); next != nil; next = t.next() {
		next.queue[0] <- nil
		next.queue = next.queue[1:]
		t.waiting--
		t.grant(next)
	}
}

// Waiting returns how many wait for a turn.
func (t *Turns) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting
}

func (t *Turns) owner(name string) *owner {
	o := t.owners[name]
	if o == nil {
		o = &owner{}
		t.owners[name] = o
	}
	return o
}

// forget forgets an owner that neither has a turn nor waits.
func (t *Turns) forget(name string, o *owner) {
	if o.held == 0 && len(o.queue) == 0 {
		delete(t.owners, name)
	}
}

// may reports whether o may have one more turn now.
func (t *Turns) may(o *owner) bool {
	return t.free > 0 && o.held < t.share && (t.free > t.spare || o.held == 0)
}

func (t *Turns) grant(o *owner) {
	t.free--
	t.grants++
	o.held++
	o.last = t.grants
}

// next returns the owner whose turn it is; nil if none of those that wait may have one.
func (t *Turns) next() (best *owner) {
	for _, o := range t.owners {
		if len(o.queue) > 0 && t.may(o) && (best == nil || o.held < best.held || o.held == best.held && o.last < best.last) {
			best = o
		}
	}
	return best
}

// sendAway sends one of the owner that waits for most away, if those are more than one more than few.
func (t *Turns) sendAway(few int) bool {
	var most *owner
	for _, o := range t.owners {
		if len(o.queue) > few+1 && (most == nil || len(o.queue) > len(most.queue)) {
			most = o
		}
	}
	if most != nil {
		last := len(most.queue) - 1
		most.queue[last] <- ErrCrowded
		most.queue = most.queue[:last]
		t.waiting--
	}
	return most != nil
}
