// Package ask sends questions to a server, limits them, repeats them, and stops them while the server fails.
//
//	l := ask.New(ask.Options{Host: "registry.example.com"})
//	answer, err := ask.Do(ctx, l, "acme", func(ctx context.Context) (Answer, error) { … })
//
// A server has parts, such as the namespaces of a registry. A broken part does not affect others.
//
// Invariants: no server receives more questions at a time, or in a second, than its [Limiter] allows, with all repetitions. If a
// server is unavailable for two of every four seconds, at least 99 % of the questions to it succeed; and a server that is down for
// twenty seconds receives at most four of forty questions a second. TestAServerThatComesAndGoes and TestAnOutageEnds check these bounds.
package ask

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/hedge"
	"github.com/modproxy/modproxy/internal/retry"
)

// Within is the time after its beginning during which a question is sent and retried. A client asks twice and expects an answer
// within three seconds each time.
const Within = 5 * time.Second

// askBudget bounds the attempts to send a question.
var askBudget = retry.Budget{Within: Within, First: 200 * time.Millisecond, Most: 600 * time.Millisecond}

// attempt is one send of a question.
type attempt struct {
	part   string
	began  time.Time     // the time when it passed the limiter
	late   time.Duration // the time after began at which its answer counts as late
	cancel context.CancelCauseFunc
	begun  atomic.Bool // its answer has begun to arrive
	over   bool        // guarded by Limiter.mu
}

type attemptKey struct{}

// Begin records that the answer to the question in ctx, the context of send in [Do], has begun to arrive. An answer that has begun
// may take its time.
func Begin(ctx context.Context) {
	if t, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		t.begun.Store(true)
	}
}

// notSent is the error of an attempt that the limiter did not let pass.
type notSent struct{ error }

func (n *notSent) Unwrap() error { return n.error }

// Do sends a question about a part of a server through its limiter. While the server is failing, the limiter holds the question
// back for a few seconds. Do retries a question that failed because the server is unavailable, and hedges a question
// with a late answer. The limiter bounds the requests to the server, so every attempt passes it.
func Do[T any](ctx context.Context, l *Limiter, part string, send func(context.Context) (T, error)) (answer T, err error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer modproxy.MeterOf(ctx).Begin()() // meanwhile other downloads use the slot of this download
	backoff := askBudget.Start()
	deadline := backoff.Deadline()
	answer, err = hedge.Do(within, hedge.Request[T]{
		Send: func(ctx context.Context, late func()) (T, error) {
			return sendOnce(ctx, l, part, deadline, send, late)
		},
		May: func() bool { return l.options.Hedges && !isPaced(ctx) && time.Now().Before(deadline) },
		Failed: func(err error) (wait time.Duration, final bool) {
			if _, unsent := errors.AsType[*notSent](err); unsent {
				return -1, false
			}
			_, isLater := errors.AsType[*modproxy.RetryLater](err)
			if !isLater && !(isTrouble(err) && egress.MayPass(err)) {
				return 0, true
			}
			modproxy.ReportError(ctx, err)
			wait, ok := backoff.Pause(err)
			if !ok || l.lasting(part) {
				return -1, false
			}
			return wait, false
		},
	})
	if unsent, ok := errors.AsType[*notSent](err); ok {
		return answer, unsent.error
	}
	switch _, isLater := errors.AsType[*modproxy.RetryLater](err); {
	case err != nil && ctx.Err() != nil && err == context.Cause(ctx):
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	case isLater || !isTrouble(err):
	case egress.MayPass(err):
		err = &modproxy.Temporary{Err: err}
	default:
		err = &modproxy.Permanent{Err: err}
	}
	return answer, err
}

// isTrouble reports whether err shows that the server is unavailable, perhaps temporarily.
func isTrouble(err error) bool {
	why, _ := Failure(err)
	return why != nil && errors.Is(err, modproxy.ErrUnavailable)
}

// sendOnce sends the question as soon as the limiter lets it pass. It calls late if the answer is late and the attempt
// continues.
func sendOnce[T any](
	ctx context.Context, l *Limiter, part string, deadline time.Time, send func(context.Context) (T, error), late func(),
) (answer T, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &attempt{part: part, cancel: cancel}
	leave, err := l.enter(ctx, t, deadline)
	if err != nil {
		return answer, &notSent{err}
	}
	// A late attempt gives its slot to others.
	timer := time.AfterFunc(t.late, func() {
		isLate := l.markLate(t)
		leave()
		if isLate {
			late()
		}
	})
	defer func() {
		timer.Stop()
		leave()
		outcome := outcomeOf(ctx, err)
		if p := recover(); p != nil {
			err, outcome = modproxy.Fault(p), context.Canceled
		}
		l.done(t, outcome)
	}()
	if answer, err = send(context.WithValue(ctx, attemptKey{}, t)); context.Cause(ctx) == errLate {
		err = errLate
	}
	return answer, err
}

// outcomeOf returns the outcome of an attempt whose send returned err. If ctx ended first, err is any cause of that.
func outcomeOf(ctx context.Context, err error) error {
	switch {
	case err == nil || err == errLate:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errLate
	case ctx.Err() != nil:
		return context.Canceled
	}
	return err
}

// enter waits until t may be sent: until no outage holds it, it has a slot, and the rate allows it. It does not wait
// longer than deadline. If t may not be sent, the error is a [modproxy.RetryLater].
func (l *Limiter) enter(ctx context.Context, t *attempt, deadline time.Time) (leave func(), err error) {
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	asker := modproxy.ClientOf(ctx).Name
	for {
		if err := l.wait(ctx, t, deadline); err != nil {
			return nil, err
		}
		slot, err := l.queue.Await(waiting, asker, modproxy.BroughtForward(ctx))
		if err == nil {
			leave := sync.OnceFunc(slot.Give)
			if err = l.pace(waiting); err == nil && l.pass(t) {
				return leave, nil
			}
			leave()
		}
		switch {
		case err == nil: // an outage began meanwhile
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w: %w", modproxy.ErrUnavailable, ErrBusy, context.Cause(ctx))
		default:
			return nil, &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: ErrBusy}
		}
	}
}

// ErrBusy is in the error of a question that was not sent because too many others wait.
var ErrBusy = errors.New("too many requests for this server are waiting")

var (
	errSlow           = errors.New("it did not answer in time")
	errLate           = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, errSlow)
	errPauseRequested = errors.New("it wants to be left alone for now")
)

type pacedKey struct{}

// Paced returns a context for a question that has waited for a pace of its own. In the background it is not hedged: a second
// request would exceed the pace.
func Paced(ctx context.Context) context.Context { return context.WithValue(ctx, pacedKey{}, true) }

func isPaced(ctx context.Context) bool {
	return modproxy.IsBackground(ctx) && ctx.Value(pacedKey{}) != nil
}
