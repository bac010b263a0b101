package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	// patience is how long after its beginning a question is still sent, again if need be. A client asks twice, and
	// is answered within three seconds each time.
	patience = 5 * time.Second
	// lateAfter is about the time after which an answer that has not begun is late: another one may come sooner.
	lateAfter  = 1500 * time.Millisecond
	maxTries   = 3                      // answers that one question waits for at a time
	againAfter = 200 * time.Millisecond // the shortest pause after a failure; it doubles
	againMost  = 600 * time.Millisecond // the longest
)

// try is a question, sent once.
type try struct {
	namespace string
	began     time.Time     // when it passed the gate
	late      time.Duration // after this time its answer is
	cancel    context.CancelCauseFunc
	begun     atomic.Bool // its answer comes, but may take its time
	over      bool        // guarded by gate.mu
}

type tryKey struct{}

// begin notes that the answer to the try that ctx is of has begun to come.
func begin(ctx context.Context) {
	if t, ok := ctx.Value(tryKey{}).(*try); ok {
		t.begun.Store(true)
	}
}

// result is what a try came to, or that it is late.
type result[T any] struct {
	value T
	err   error
	sent  bool
	late  bool // and goes on
}

// ask sends a question about something of a namespace through the gate, which waits a few seconds while the registry
// is in trouble. It sends the question again when that met trouble or its answer is late: the first answer counts.
func ask[T any](ctx context.Context, g *gate, namespace string, send func(context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	deadline := time.Now().Add(patience)
	results := make(chan result[T])
	tell := func(r result[T]) {
		select {
		case results <- r:
		case <-ctx.Done():
		}
	}
	underWay, pause := 0, againAfter
	start := func() {
		underWay++
		go sendOnce(ctx, g, namespace, deadline, send, tell)
	}
	start()
	var next <-chan time.Time // of the next try, unless that waits for nothing
	for {
		select {
		case <-next:
			next = nil
			start()
		case r := <-results:
			if r.late {
				if next == nil && underWay < maxTries && time.Now().Before(deadline) {
					start()
				}
				continue
			}
			underWay--
			why, _ := trouble(r.err)
			later, isLater := errors.AsType[*modproxy.RetryLater](r.err)
			passes := isLater || why != nil && errors.Is(r.err, modproxy.ErrUnavailable)
			if r.err == nil || r.sent && !passes {
				return r.value, r.err
			}
			if r.sent {
				modproxy.Troubled(ctx, r.err)
			}
			wait := pause/2 + rand.N(pause/2+1)
			if isLater {
				wait = max(wait, time.Until(later.After))
			}
			switch {
			case next == nil && r.sent && time.Now().Add(wait).Before(deadline) && !g.lasting(namespace):
				next = time.After(wait)
				pause = min(2*pause, againMost)
			case next == nil && underWay == 0:
				return r.value, r.err
			}
		case <-ctx.Done():
			return answer, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, context.Cause(ctx))
		}
	}
}

// sendOnce sends the question when that may be. It tells the result, and before that perhaps that it is late.
func sendOnce[T any](
	ctx context.Context, g *gate, namespace string, deadline time.Time,
	send func(context.Context) (T, error), tell func(result[T]),
) {
	var r result[T]
	defer func() { tell(r) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &try{namespace: namespace, cancel: cancel}
	leave, err := g.enter(ctx, t, deadline)
	if r.err = err; err != nil {
		return
	}
	// A try that is late makes place for others.
	timer := time.AfterFunc(t.late, func() {
		overdue := g.overdue(t)
		leave()
		if overdue {
			tell(result[T]{late: true})
		}
	})
	defer func() {
		timer.Stop()
		leave()
		outcome := r.err
		if p := recover(); p != nil {
			r.err, outcome = modproxy.Fault(p), context.Canceled
		}
		g.done(t, outcome)
	}()
	r.sent = true
	if r.value, r.err = send(context.WithValue(ctx, tryKey{}, t)); context.Cause(ctx) == errLate {
		r.err = errLate
	}
}

// enter waits until t may be sent: for the end of an outage, for a turn, and as the rate demands, but no longer
// than deadline. The error when t may not be sent is a [modproxy.RetryLater].
func (g *gate) enter(ctx context.Context, t *try, deadline time.Time) (leave func(), err error) {
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	asker := modproxy.AskerOf(ctx).Name
	for {
		if err := g.wait(ctx, t, deadline); err != nil {
			return nil, err
		}
		leave, err := g.turns.Await(waiting, asker)
		if err == nil {
			leave = sync.OnceFunc(leave)
			if err = g.pace(waiting); err == nil && g.pass(t) {
				return leave, nil
			}
			leave()
		}
		switch {
		case err == nil: // an outage began meanwhile
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w: %w", modproxy.ErrUnavailable, errBusy, context.Cause(ctx))
		default:
			return nil, &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: errBusy}
		}
	}
}

var (
	errBusy      = errors.New("there are more questions for this registry than it is asked at a time")
	errSlow      = errors.New("it did not answer in time")
	errLate      = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, errSlow)
	errLeftAlone = errors.New("it wants to be left alone for now")
)
