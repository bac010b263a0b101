// Package hedge sends a request a second time, beside the first, when its answer is late.
//
// One server behind a name may hang, or one connection to it, while others answer. [Do] sends a request, sends it once
// more when the answer has not begun after [Late], and returns the first answer. The caller decides what a request is,
// and may send it again after a failure.
//
// Invariants: at most two sends of one request are under way because an answer is late, and at most three are made. The
// first is never given up for another, so that a server that is only slow still answers. With a [Budget], hedges are a
// share of all requests: a server that is slow for everybody is not asked twice as much.
package hedge

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	lateAfter = 1500 * time.Millisecond // on average
	maxHedges = 4                       // of one request; each takes the place of the one before
	failPause = 100 * time.Millisecond  // the shortest after a hedge that fails
)

// Late returns after what time an answer that has not begun is late: 1.1 to 1.9 s.
func Late() time.Duration { return lateAfter*3/4 + rand.N(lateAfter/2) }

// Request is what [Do] sends.
type Request[T any] struct {
	// Send sends the request once. It calls late, at most once, when the answer has not begun in time. Its context ends
	// when another answer is returned, and for the answer that is returned, with the context of Do.
	Send func(ctx context.Context, late func()) (T, error)
	// May reports whether the request may be hedged now; nil never hedges.
	May func() bool
	// Failed tells what follows an error of Send. If final is set, Do returns the error. Otherwise Do sends the request
	// again after wait. If wait is negative, it hedges what is late, and returns the last error when nothing is under way.
	Failed func(err error) (wait time.Duration, final bool)
	// Drop releases a value that is not returned; nil does nothing.
	Drop func(T)
}

// send is one send of a request.
type send[T any] struct {
	cancel context.CancelFunc
	late   bool
	value  T
	err    error
}

// Do sends r and returns its first answer, or a value and error that Send returned. When ctx ends it returns the cause.
// Contexts of Send are released when ctx ends.
func Do[T any](ctx context.Context, r Request[T]) (answer T, err error) {
	d := &doing[T]{Request: r, ctx: ctx, ended: make(chan *send[T]), late: make(chan *send[T]), over: make(chan struct{})}
	defer close(d.over)
	defer func() {
		for _, s := range d.underWay {
			s.cancel()
		}
	}()
	d.start()
	var next <-chan time.Time      // of the next send after a failure
	var nextHedge <-chan time.Time // of the next hedge after one that failed
	var failed *send[T]            // the last
	defer func() { d.drop(failed) }()
	for {
		select {
		case <-next:
			next = nil
			d.start()
		case <-nextHedge:
			if nextHedge = nil; next == nil && slices.ContainsFunc(d.underWay, isLate[T]) {
				d.hedge()
			}
		case s := <-d.late:
			if s.late = true; next == nil && slices.Contains(d.underWay, s) {
				d.hedge()
			}
		case s := <-d.ended:
			if !d.forget(s) { // another one took its place
				d.drop(s)
				continue
			}
			if s.err == nil {
				return s.value, nil
			}
			wait, final := r.Failed(s.err)
			d.drop(failed)
			switch failed = s; {
			case final, next != nil:
			case wait >= 0:
				next = time.After(wait)
			case nextHedge == nil && slices.ContainsFunc(d.underWay, isLate[T]):
				nextHedge = time.After(failPause + rand.N(failPause))
			}
			if final || next == nil && len(d.underWay) == 0 {
				failed = nil
				return s.value, s.err
			}
		case <-ctx.Done():
			return answer, context.Cause(ctx)
		}
	}
}

func isLate[T any](s *send[T]) bool { return s.late }

// doing is a request that is being sent.
type doing[T any] struct {
	Request[T]
	ctx         context.Context
	late, ended chan *send[T]
	over        chan struct{} // closed when nothing is received any more
	underWay    []*send[T]    // the oldest first
	hedges      int
}

func (d *doing[T]) start() {
	ctx, cancel := context.WithCancel(d.ctx)
	s := &send[T]{cancel: cancel}
	d.underWay = append(d.underWay, s)
	go func() {
		d.send(ctx, s)
		select {
		case d.ended <- s:
		case <-d.over:
			d.drop(s)
		}
	}()
}

func (d *doing[T]) send(ctx context.Context, s *send[T]) {
	defer func() {
		if p := recover(); p != nil { // it would end the process
			s.err = modproxy.Fault(p)
		}
	}()
	s.value, s.err = d.Send(ctx, func() {
		select {
		case d.late <- s:
		case <-d.over:
		}
	})
}

// hedge sends the request beside the first one, in the place of another one that is beside it.
func (d *doing[T]) hedge() {
	if d.hedges == maxHedges || d.May == nil || !d.May() {
		return
	}
	d.hedges++
	if n := len(d.underWay); n > 1 {
		d.underWay[n-1].cancel()
		d.underWay = d.underWay[:n-1]
	}
	d.start()
}

// forget reports whether s was under way.
func (d *doing[T]) forget(s *send[T]) bool {
	i := slices.Index(d.underWay, s)
	if i >= 0 {
		d.underWay = slices.Delete(d.underWay, i, i+1)
	}
	return i >= 0
}

func (d *doing[T]) drop(s *send[T]) {
	if s == nil {
		return
	}
	if s.cancel(); d.Drop != nil {
		d.Drop(s.value)
	}
}

// Budget bounds hedges to a fifth of the requests, and 16 more. The zero Budget is ready for use, and safe for
// concurrent use.
type Budget struct {
	mu    sync.Mutex
	spent float64
}

const (
	share = 0.2
	burst = 16
)

// Count counts a request that may be hedged.
func (b *Budget) Count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = max(0, b.spent-share)
}

// Take reports whether one more hedge is allowed, and counts it.
func (b *Budget) Take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent+1 > burst {
		return false
	}
	b.spent++
	return true
}
