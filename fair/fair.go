// Package fair shares turns among owners: clients, or publishers.
//
// Invariant: an owner that takes many turns, or waits for many, takes no more than its share from the others. A turn
// goes to the owner that has the fewest; where too many wait, one of the owner that waits for most is sent away.
//
// What is wanted in the background, see [modproxy.InBackground], comes after all else, whoever owns it, and leaves free a
// quarter of the turns, and of its owner's share. It is not starved: while others leave it none, every eighth turn is for it, one at a time.
package fair

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/modproxy/modproxy"
)

// ErrCrowded tells that too many wait for a turn.
var ErrCrowded = errors.New("too many wait for their turn")

// Turns are the turns that are shared. They are safe for concurrent use.
type Turns struct {
	turns int // all of them
	share int // of one owner, at most
	spare int // turns that go only to owners that have none
	queue int // of those that wait, at most
	ahead int // turns that are not for the background, unless it is its turn

	mu     sync.Mutex
	free   int // negative while turns that were paused go on beside those that were given meanwhile
	paused int
	behind int // turns that were taken in the background
	passed int // turns that others took since one went to the background, which waits

	waiting, waitingBehind int               // the first has all
	owners                 map[string]*owner // that have a turn or wait
	grants                 uint64
}

// owner has turns, or waits for some.
type owner struct {
	held, paused int

	last  uint64  // when it was given a turn; of those with as many turns it was longest ago for the next
	queue []*want // those in the background come last
}

// want is for one turn.
type want struct {
	turn   chan error // gets nil with the turn, or an error
	behind bool       // in the background
}

const passes = 7 // turns that others take before one is for the background

// New returns n turns, of which one owner has share at most, and the last spare are for owners that have none. No more
// than queue wait.
func New(n, share, spare, queue int) *Turns {
	return &Turns{turns: n, share: share, spare: spare, queue: queue, ahead: n / 4, free: n, owners: map[string]*owner{}}
}

// Take waits for a turn of the named owner, which is to be given back by Give. The error is [ErrCrowded], or the cause
// of ctx when that ended.
func (t *Turns) Take(ctx context.Context, name string) error {
	return t.wait(ctx, name, &want{turn: make(chan error, 1)})
}

// Turn is a turn that was taken by [Turns.Await]. Its methods are not called concurrently.
type Turn struct {
	of     *Turns
	owner  string
	behind bool
	paused bool
}

// Await is Take for what may be in the background: its turn comes after those of all others then, until it is brought
// forward.
func (t *Turns) Await(ctx context.Context, name string) (*Turn, error) {
	w := &want{turn: make(chan error, 1), behind: modproxy.IsBackground(ctx)}
	if err := t.wait(ctx, name, w); err != nil {
		return nil, err
	}
	return &Turn{of: t, owner: name, behind: w.behind}, nil
}

// Give gives the turn back.
func (u *Turn) Give() {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	if u.paused {
		u.count(-1)
		return
	}
	u.of.giveLocked(u.owner, u.behind)
}

// mostPaused bounds the turns that are paused: for each turn that there is, those of an owner; twice as many in all.
const mostPaused = 8

// Pause lends the turn to others while what it is for does not go on by itself, until Resume. It does nothing if too many are.
func (u *Turn) Pause() {
	t := u.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.owners[u.owner]; u.paused || t.paused >= 2*mostPaused*t.turns || o.paused >= mostPaused*t.turns {
		return
	}
	u.count(1)
	t.giveLocked(u.owner, u.behind)
}

// Resume takes a turn that was paused at once, beside all others that have one.
func (u *Turn) Resume() {
	t := u.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if !u.paused {
		return
	}
	o := t.owners[u.owner]
	o.held++
	t.free--
	if u.behind {
		t.behind++
	}
	u.count(-1)
}

// count counts one more turn that is paused, u, or one less. Its Turns are locked.
func (u *Turn) count(by int) {
	o := u.of.owners[u.owner]
	u.paused = by > 0
	o.paused += by
	u.of.paused += by
	u.of.forget(u.owner, o)
}

func (t *Turns) wait(ctx context.Context, name string, w *want) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.join(name, w)
	var forward <-chan struct{}
	if w.behind {
		forward = modproxy.BroughtForward(ctx)
	}
	for {
		select {
		case err := <-w.turn:
			return err
		case <-forward:
			t.bringForward(name, w)
			forward = nil
		case <-ctx.Done():
			return t.leave(ctx, name, w)
		}
	}
}

// Try takes a turn of the named owner if that need not wait for it.
func (t *Turns) Try(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owner(name)
	defer t.forget(name, o)
	if o.first(false) != nil || !t.may(o, false) {
		return false
	}
	t.grant(o, false)
	return true
}

// join takes a turn that is free, or joins those that wait. It tells w how that ends.
func (t *Turns) join(name string, w *want) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owner(name)
	switch {
	case o.first(w.behind) == nil && t.may(o, w.behind):
		t.grant(o, w.behind)
		w.turn <- nil
	case t.waiting >= t.queue && !t.sendAway(len(o.queue), w.behind):
		t.forget(name, o)
		w.turn <- ErrCrowded
	default:
		t.enqueue(o, w)
	}
}

// leave returns the cause of ctx, which ended while w waited, or what was decided a moment ago.
func (t *Turns) leave(ctx context.Context, name string, w *want) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owner(name)
	defer t.forget(name, o)
	if !t.dequeue(o, w) {
		return <-w.turn
	}
	return context.Cause(ctx)
}

// bringForward puts w, which waits in the background, behind those of its owner that do not.
func (t *Turns) bringForward(name string, w *want) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owner(name)
	defer t.forget(name, o)
	if t.dequeue(o, w) {
		w.behind = false
		t.enqueue(o, w)
		t.pass()
	}
}

// Give gives back a turn of the named owner that Take or Try took.
func (t *Turns) Give(name string) { t.give(name, false) }

func (t *Turns) give(name string, behind bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveLocked(name, behind)
}

func (t *Turns) giveLocked(name string, behind bool) {
	o := t.owners[name]
	o.held--
	t.free++
	if behind {
		t.behind--
	}
	t.forget(name, o)
	t.pass()
}

// pass gives turns that are free to those that wait.
func (t *Turns) pass() {
	due := t.passed >= passes
	for {
		o, w := t.next(due)
		if o == nil {
			o, w = t.next(!due)
		}
		if o == nil {
			return
		}
		t.dequeue(o, w)
		t.grant(o, w.behind)
		w.turn <- nil
		due = t.passed >= passes
	}
}

// Waiting returns how many wait for a turn, with those in the background if behind is set.
func (t *Turns) Waiting(behind bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if behind {
		return t.waiting
	}
	return t.waiting - t.waitingBehind
}

func (t *Turns) owner(name string) *owner {
	o := t.owners[name]
	if o == nil {
		o = &owner{}
		t.owners[name] = o
	}
	return o
}

// forget forgets an owner that neither has a turn, or a paused one, nor waits.
func (t *Turns) forget(name string, o *owner) {
	if o.held == 0 && o.paused == 0 && len(o.queue) == 0 {
		delete(t.owners, name)
	}
}

// may reports whether o may have one more turn now.
func (t *Turns) may(o *owner, behind bool) bool {
	if behind && (o.held >= t.share-t.share/4 || t.free <= t.ahead && (t.passed < passes || t.behind > 0)) {
		return false
	}
	return t.free > 0 && o.held < t.share && (t.free > t.spare || o.held == 0)
}

func (t *Turns) grant(o *owner, behind bool) {
	t.free--
	t.grants++
	o.held++
	o.last = t.grants
	switch {
	case behind:
		t.behind++
		t.passed = 0
	case t.waitingBehind > 0:
		t.passed++
	}
}

// first returns what o waits for first, in the background or not; nil if nothing.
func (o *owner) first(behind bool) *want {
	i := slices.IndexFunc(o.queue, func(w *want) bool { return w.behind == behind })
	if i < 0 {
		return nil
	}
	return o.queue[i]
}

func (t *Turns) enqueue(o *owner, w *want) {
	i := len(o.queue)
	if w.behind {
		t.waitingBehind++
	} else if first := o.first(true); first != nil {
		i = slices.Index(o.queue, first)
	}
	o.queue = slices.Insert(o.queue, i, w)
	t.waiting++
}

// dequeue reports whether w waited.
func (t *Turns) dequeue(o *owner, w *want) bool {
	i := slices.Index(o.queue, w)
	if i < 0 {
		return false
	}
	o.queue = slices.Delete(o.queue, i, i+1)
	t.waiting--
	if w.behind {
		t.waitingBehind--
	}
	return true
}

// next returns the owner whose turn it is, and for what, in the background or not; nil if none of those that wait may
// have one.
func (t *Turns) next(behind bool) (best *owner, w *want) {
	if behind && t.waitingBehind == 0 || t.waiting == 0 || t.free <= 0 {
		return nil, nil
	}
	for _, o := range t.owners {
		first := o.first(behind)
		if first != nil && t.may(o, behind) && (best == nil || o.held < best.held || o.held == best.held && o.last < best.last) {
			best, w = o, first
		}
	}
	return best, w
}

// sendAway sends one of the owner that waits for most away, if those are more than one more than few. For a want that is
// not in the background it sends one away that is, if there is any.
func (t *Turns) sendAway(few int, behind bool) bool {
	fromBehind := !behind && t.waitingBehind > 0
	if fromBehind {
		few = -1
	}
	var most *owner
	var name string
	for n, o := range t.owners {
		if len(o.queue) > few+1 && (most == nil || len(o.queue) > len(most.queue)) && (!fromBehind || o.first(true) != nil) {
			most, name = o, n
		}
	}
	if most != nil {
		w := most.queue[len(most.queue)-1]
		t.dequeue(most, w)
		t.forget(name, most)
		w.turn <- ErrCrowded
	}
	return most != nil
}
