// Package fair shares a limited number of turns among owners: clients, or publishers.
//
//	turns := fair.New(8, 4, 1, 100)
//	if err := turns.Take(ctx, client); err != nil { … }
//	defer turns.Give(client)
//
// Invariant: an owner never takes more than its share from others, however many turns it takes or waits for. A free turn goes
// to the waiting owner with the fewest turns. If the queue is full, the owner with the most waiting requests loses one of
// them.
//
// Requests in the background (see [modproxy.InBackground]) come after all other requests, of any owner. They leave free a
// quarter of the turns, and a quarter of their owner's share. They do not starve: while other requests leave them no turn,
// every eighth turn goes to the background, one at a time.
package fair

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/modproxy/modproxy"
)

// ErrCrowded means that too many requests wait for a turn.
var ErrCrowded = errors.New("too many wait for their turn")

// Turns is a set of turns that owners share. It is safe for concurrent use.
type Turns struct {
	turns int // total
	share int // maximum turns of one owner
	spare int // turns for owners that hold no turn
	queue int // maximum number of waiting requests
	ahead int // turns that the background leaves free, except when a turn is due to it

	mu     sync.Mutex
	free   int // negative while paused turns have resumed beside the turns given to others
	paused int
	behind int // turns held in the background
	passed int // turns that others took since the last background turn, while the background waits

	waiting, waitingBehind int               // waiting includes waitingBehind
	owners                 map[string]*owner // owners with a turn, a paused turn or a waiting request
	grants                 uint64
}

// owner holds turns, or waits for turns.
type owner struct {
	held, paused int

	last  uint64  // number of its last grant; among owners with equally many turns, the lowest is next
	queue []*want // background requests come last
}

// want is a request for one turn.
type want struct {
	turn   chan error // receives nil with the turn, or an error
	behind bool       // in the background
}

const passes = 7 // turns of others before one turn of the background

// New returns n turns. One owner holds at most share turns. The last spare turns go to owners that hold none. At most queue
// requests wait.
func New(n, share, spare, queue int) *Turns {
	return &Turns{turns: n, share: share, spare: spare, queue: queue, ahead: n / 4, free: n, owners: map[string]*owner{}}
}

// Take waits for a turn of the named owner. The caller must return the turn with Give. The error is [ErrCrowded], or the
// cause of ctx if ctx ended.
func (t *Turns) Take(ctx context.Context, name string) error {
	return t.wait(ctx, name, &want{turn: make(chan error, 1)})
}

// Turn is a turn that [Turns.Await] returned. It is not safe for concurrent use.
type Turn struct {
	of     *Turns
	owner  string
	behind bool
	paused bool
}

// Await is Take for requests that may be in the background. In the background, a request waits until no other request can use
// the turn, or until it is brought forward.
func (t *Turns) Await(ctx context.Context, name string) (*Turn, error) {
	w := &want{turn: make(chan error, 1), behind: modproxy.IsBackground(ctx)}
	if err := t.wait(ctx, name, w); err != nil {
		return nil, err
	}
	return &Turn{of: t, owner: name, behind: w.behind}, nil
}

// Give returns the turn.
func (u *Turn) Give() {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	if u.paused {
		u.count(-1)
		return
	}
	u.of.giveLocked(u.owner, u.behind)
}

// mostPaused limits paused turns: to mostPaused*turns for each owner, and to twice as many in total.
const mostPaused = 8

// Pause lends the turn to others until Resume, while its work makes no progress. It has no effect if too many turns are
// paused.
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

// Resume takes a paused turn back at once, even if all turns are held.
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

// count adds by, which is 1 or -1, to the paused turns. The caller holds the lock of the Turns.
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

// Try takes a turn of the named owner if one is available without waiting.
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

// join takes a free turn or adds w to the queue. w.turn receives the result.
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

// leave removes w from the queue and returns the cause of ctx. If w already has a result, it returns that.
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

// bringForward moves w from the background behind the other requests of its owner.
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

// Give returns a turn of the named owner that Take or Try took.
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

// pass gives free turns to waiting requests. The caller holds the lock.
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

// Waiting returns the number of waiting requests. It includes the background if behind is true.
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

// forget removes an owner without turns, paused turns and waiting requests.
func (t *Turns) forget(name string, o *owner) {
	if o.held == 0 && o.paused == 0 && len(o.queue) == 0 {
		delete(t.owners, name)
	}
}

// may reports whether o may take one more turn now.
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

// first returns the first waiting request of o, in the background or not, or nil.
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

// dequeue removes w from the queue. It reports whether w was waiting.
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

// next returns the owner of the next turn and its request, in the background or not. It returns nil if no waiting request may
// take a turn now.
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

// sendAway removes a request of the owner with the longest queue, if that queue is longer than few+1. For a request outside
// the background, it removes any background request first. It reports whether it removed a request.
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
