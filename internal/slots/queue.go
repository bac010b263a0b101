package slots

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrCrowded means that too many requests wait for a slot.
var ErrCrowded = errors.New("too many requests are waiting")

// Queue is a set of slots that owners share. It is safe for concurrent use.
type Queue struct {
	slots   int // total
	share   int // maximum slots of one owner
	spare   int // slots for owners that hold no slot
	waiters int // maximum number of waiting requests
	reserve int // slots that the background leaves free, except when a slot is due to it

	mu         sync.Mutex
	free       int // negative while paused slots have resumed beside the slots given to others
	paused     int
	background int // slots held in the background
	passed     int // slots that others took since the last background slot, while the background waits

	waiting, waitingBackground int               // waiting includes waitingBackground
	owners                     map[string]*owner // owners with a slot, a paused slot or a waiting request
	grants                     uint64
}

// owner holds slots, or waits for slots.
type owner struct {
	held, paused int

	last  uint64    // number of its last grant; among owners with equally many slots, the lowest is next
	queue []*waiter // background requests come last
}

// waiter is a request for one slot.
type waiter struct {
	slot       chan error // receives nil with the slot, or an error
	background bool
}

const starvationLimit = 7 // slots of others before one slot of the background

// New returns a Queue of n slots. One owner holds at most share slots. The last spare slots go to owners that hold none. At most queue
// requests wait.
func New(n, share, spare, queue int) *Queue {
	return &Queue{slots: n, share: share, spare: spare, waiters: queue, reserve: n / 4, free: n, owners: map[string]*owner{}}
}

// Take waits for a slot of the named owner. The caller must return the slot with [Queue.Give]. The error is [ErrCrowded], also if the
// request has waited and then leaves the full queue for a request of another owner; or the cause of ctx if ctx ended.
func (q *Queue) Take(ctx context.Context, name string) error {
	return q.wait(ctx, name, &waiter{slot: make(chan error, 1)}, nil)
}

// Slot is a slot that [Queue.Await] returned. It is not safe for concurrent use.
type Slot struct {
	of         *Queue
	owner      string
	background bool
	paused     bool
}

// Await is Take for a request that may be in the background, and returns the slot with [Slot.Give]. The request is in the background
// until the channel foreground is closed; a nil channel means always. In the background, a request waits until no other request can
// use the slot, or a slot is due to the background.
func (q *Queue) Await(ctx context.Context, name string, foreground <-chan struct{}) (*Slot, error) {
	w := &waiter{slot: make(chan error, 1), background: true}
	select {
	case <-foreground:
		w.background = false
	default:
	}
	if err := q.wait(ctx, name, w, foreground); err != nil {
		return nil, err
	}
	return &Slot{of: q, owner: name, background: w.background}, nil
}

// Give returns the slot.
func (s *Slot) Give() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.paused {
		s.count(-1)
		return
	}
	s.of.giveLocked(s.owner, s.background)
}

// mostPaused limits paused slots: to mostPaused*slots for each owner, and to twice as many in total.
const mostPaused = 8

// Pause lends the slot to others until Resume, while its work makes no progress. It has no effect if eight times as many slots as the
// Queue has are paused for its owner, or 16 times as many in total.
func (s *Slot) Pause() {
	q := s.of
	q.mu.Lock()
	defer q.mu.Unlock()
	if o := q.owners[s.owner]; s.paused || q.paused >= 2*mostPaused*q.slots || o.paused >= mostPaused*q.slots {
		return
	}
	s.count(1)
	q.giveLocked(s.owner, s.background)
}

// Resume takes a paused slot back at once, even if all slots are held. More slots than the Queue has are then in use, until others
// are returned: at most as many more as were paused.
func (s *Slot) Resume() {
	q := s.of
	q.mu.Lock()
	defer q.mu.Unlock()
	if !s.paused {
		return
	}
	o := q.owners[s.owner]
	o.held++
	q.free--
	if s.background {
		q.background++
	}
	s.count(-1)
}

// count adds by, which is 1 or -1, to the paused slots. The caller holds the lock of the Queue.
func (s *Slot) count(by int) {
	o := s.of.owners[s.owner]
	s.paused = by > 0
	o.paused += by
	s.of.paused += by
	s.of.forget(s.owner, o)
}

// wait waits for the slot of w. foreground is not used if w is in the foreground.
func (q *Queue) wait(ctx context.Context, name string, w *waiter, foreground <-chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	q.join(name, w)
	if !w.background {
		foreground = nil
	}
	for {
		select {
		case err := <-w.slot:
			return err
		case <-foreground:
			q.promote(name, w)
			foreground = nil
		case <-ctx.Done():
			return q.leave(ctx, name, w)
		}
	}
}

// Try takes a slot of the named owner if one is available without waiting.
func (q *Queue) Try(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owner(name)
	defer q.forget(name, o)
	if o.first(false) != nil || !q.may(o, false) {
		return false
	}
	q.grant(o, false)
	return true
}

// join takes a free slot or adds w to the queue. w.slot receives the result.
func (q *Queue) join(name string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owner(name)
	switch {
	case o.first(w.background) == nil && q.may(o, w.background):
		q.grant(o, w.background)
		w.slot <- nil
	case q.waiting >= q.waiters && !q.sendAway(len(o.queue), w.background):
		q.forget(name, o)
		w.slot <- ErrCrowded
	default:
		q.enqueue(o, w)
	}
}

// leave removes w from the queue and returns the cause of ctx. If w already has a result, it returns that.
func (q *Queue) leave(ctx context.Context, name string, w *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owner(name)
	defer q.forget(name, o)
	if !q.dequeue(o, w) {
		return <-w.slot
	}
	return context.Cause(ctx)
}

// promote moves w from the background to the end of the other requests of its owner.
func (q *Queue) promote(name string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owner(name)
	defer q.forget(name, o)
	if q.dequeue(o, w) {
		w.background = false
		q.enqueue(o, w)
		q.pass()
	}
}

// Give returns a slot of the named owner that Take or Try took.
func (q *Queue) Give(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giveLocked(name, false)
}

func (q *Queue) giveLocked(name string, background bool) {
	o := q.owners[name]
	o.held--
	q.free++
	if background {
		q.background--
	}
	q.forget(name, o)
	q.pass()
}

// pass gives free slots to waiting requests. The caller holds the lock.
func (q *Queue) pass() {
	due := q.passed >= starvationLimit
	for {
		o, w := q.next(due)
		if o == nil {
			o, w = q.next(!due)
		}
		if o == nil {
			return
		}
		q.dequeue(o, w)
		q.grant(o, w.background)
		w.slot <- nil
		due = q.passed >= starvationLimit
	}
}

// Waiting returns the number of waiting requests. It includes the background if background is true.
func (q *Queue) Waiting(background bool) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if background {
		return q.waiting
	}
	return q.waiting - q.waitingBackground
}

func (q *Queue) owner(name string) *owner {
	o := q.owners[name]
	if o == nil {
		o = &owner{}
		q.owners[name] = o
	}
	return o
}

// forget removes an owner without slots, paused slots and waiting requests.
func (q *Queue) forget(name string, o *owner) {
	if o.held == 0 && o.paused == 0 && len(o.queue) == 0 {
		delete(q.owners, name)
	}
}

// may reports whether o may take one more slot now.
func (q *Queue) may(o *owner, background bool) bool {
	if background && (o.held >= q.share-q.share/4 || q.free <= q.reserve && (q.passed < starvationLimit || q.background > 0)) {
		return false
	}
	return q.free > 0 && o.held < q.share && (q.free > q.spare || o.held == 0)
}

func (q *Queue) grant(o *owner, background bool) {
	q.free--
	q.grants++
	o.held++
	o.last = q.grants
	switch {
	case background:
		q.background++
		q.passed = 0
	case q.waitingBackground > 0:
		q.passed++
	}
}

// first returns the first waiting request of o, in the background or not, or nil.
func (o *owner) first(background bool) *waiter {
	i := slices.IndexFunc(o.queue, func(w *waiter) bool { return w.background == background })
	if i < 0 {
		return nil
	}
	return o.queue[i]
}

func (q *Queue) enqueue(o *owner, w *waiter) {
	i := len(o.queue)
	if w.background {
		q.waitingBackground++
	} else if first := o.first(true); first != nil {
		i = slices.Index(o.queue, first)
	}
	o.queue = slices.Insert(o.queue, i, w)
	q.waiting++
}

// dequeue removes w from the queue. It reports whether w was waiting.
func (q *Queue) dequeue(o *owner, w *waiter) bool {
	i := slices.Index(o.queue, w)
	if i < 0 {
		return false
	}
	o.queue = slices.Delete(o.queue, i, i+1)
	q.waiting--
	if w.background {
		q.waitingBackground--
	}
	return true
}

// next returns the owner of the next slot and its request, in the background or not. It returns nil if no waiting request may
// take a slot now.
func (q *Queue) next(background bool) (best *owner, w *waiter) {
	if background && q.waitingBackground == 0 || q.waiting == 0 || q.free <= 0 {
		return nil, nil
	}
	for _, o := range q.owners {
		first := o.first(background)
		if first != nil && q.may(o, background) && (best == nil || o.held < best.held || o.held == best.held && o.last < best.last) {
			best, w = o, first
		}
	}
	return best, w
}

// sendAway removes a request of the owner with the longest queue, if that queue is longer than few+1. For a request outside
// the background, it removes any background request first. It reports whether it removed a request.
func (q *Queue) sendAway(few int, background bool) bool {
	fromBackground := !background && q.waitingBackground > 0
	if fromBackground {
		few = -1
	}
	var most *owner
	var name string
	for n, o := range q.owners {
		if len(o.queue) > few+1 && (most == nil || len(o.queue) > len(most.queue)) && (!fromBackground || o.first(true) != nil) {
			most, name = o, n
		}
	}
	if most != nil {
		w := most.queue[len(most.queue)-1]
		q.dequeue(most, w)
		q.forget(name, most)
		w.slot <- ErrCrowded
	}
	return most != nil
}
