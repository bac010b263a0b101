// Package hedge repeats a request when its answer is late, and returns the first answer.
//
// One server behind a name, or one connection to it, may hang while others answer. [Do] sends a request. If Send reports
// after [Late] that its answer has not begun, Do sends the request a second time beside the first: a hedge. The caller
// defines the request in a [Request], and decides what to retry after a failure.
//
//	budget.Count()
//	answer, err := hedge.Do(ctx, hedge.Request[T]{Send: send, May: budget.Take, Failed: failed})
//
// Invariants: of one request, at most two sends are in progress: the oldest one and the newest hedge. A further hedge cancels
// the previous one. Do makes at most four hedges for a request, without retries after failures. It never cancels the oldest
// send to make a hedge, so that a slow server can still answer. When Do returns, it cancels the sends that have not answered.
// With a [Budget], hedges are a fixed share of all counted requests, so that a server that is slow for all clients does not
// receive twice as many.
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
	maxHedges = 4                       // of one request; each replaces the previous one
	failPause = 100 * time.Millisecond  // the shortest pause after a failed hedge
)

// Late returns the time after which an answer that has not begun is late, chosen at random: 1.1 to 1.9 s. Send measures this
// time; Do has no timer for it.
func Late() time.Duration { return lateAfter*3/4 + rand.N(lateAfter/2) }

// Request is a request for [Do].
type Request[T any] struct {
	// Send sends the request once. It should call late, at most once, if the answer has not begun after [Late]. Do may call it
	// from several goroutines at a time. A panic becomes an error. The context of Send ends when a hedge replaces this send, and
	// when Do returns another answer or an error. If Do returns the answer of this send, its context ends with that of Do, so
	// that the caller can read a body.
	Send func(ctx context.Context, late func()) (T, error)
	// May reports whether the request may be hedged now; nil never hedges.
	May func() bool
	// Failed decides what follows an error of Send. If final is true, Do returns the error. Otherwise Do sends the request
	// again after wait. If wait is negative, Do only hedges a late send, and returns the last error when no send is in
	// progress. Failed must not be nil.
	Failed func(err error) (wait time.Duration, final bool)
	// Drop releases a value that Do does not return; nil does nothing.
	Drop func(T)
}

// send is one send of a request.
type send[T any] struct {
	cancel context.CancelFunc
	late   bool
	value  T
	err    error
}

// Do sends r and returns the first value that a Send returned without an error. If no Send succeeded, Do returns the value and
// the error of one failed Send: the final one, or the last one. If ctx ends first, Do returns the cause of ctx. The caller
// must end ctx when it has read the answer: this releases the context of its Send.
func Do[T any](ctx context.Context, r Request[T]) (answer T, err error) {
	d := &doing[T]{Request: r, ctx: ctx, ended: make(chan *send[T]), late: make(chan *send[T]), over: make(chan struct{})}
	defer close(d.over)
	defer func() {
		for _, s := range d.underWay {
			s.cancel()
		}
	}()
	d.start()
	var next <-chan time.Time      // the next send after a failure
	var nextHedge <-chan time.Time // the next hedge after a failed one
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
			if !d.forget(s) { // another send replaced it
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

// doing is a request in progress.
type doing[T any] struct {
	Request[T]
	ctx         context.Context
	late, ended chan *send[T]
	over        chan struct{} // closed when Do no longer receives
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
		if p := recover(); p != nil { // a panic would end the process
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

// hedge sends the request beside the first send. It replaces an earlier hedge.
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

// forget removes s from the sends in progress, and reports whether s was one of them.
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

// Budget limits hedges to a fifth of the requests, plus 16. The zero Budget is ready for use. A Budget is safe for
// concurrent use.
type Budget struct {
	mu    sync.Mutex
	spent float64
}

const (
	share = 0.2
	burst = 16
)

// Count counts a request that may be hedged. Callers use it once for each request.
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
