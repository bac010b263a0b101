// Package retry repeats a request that failed and may succeed later, within a budget.
//
//	budget := retry.Budget{Tries: 5, First: 500 * time.Millisecond}
//	err := budget.Do(ctx, func() (again bool, err error) { … })
//
// [Backoff] only computes the pauses, for callers with a loop of their own. [Later] repeats a request as often as the other side
// asks for it.
//
// Invariant: a request is not repeated before the time in a [modproxy.RetryLater].
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/modproxy/modproxy"
)

// Budget bounds the attempts of one request. It is a value, and not changed by its methods.
type Budget struct {
	Tries   int           // at most so many attempts; zero: no bound
	Within  time.Duration // no attempt begins later than this after the first; zero: no bound
	First   time.Duration // the pause after the first failure; each failure doubles it; zero: no pauses but those of a RetryLater
	Most    time.Duration // the longest pause of the backoff; zero: no bound
	MaxWait time.Duration // the longest pause, also for a [modproxy.RetryLater]; if a longer one is due, no attempt follows; zero: no bound
}

// Backoff counts the failures of one request. It is not safe for concurrent use.
type Backoff struct {
	budget   Budget
	deadline time.Time
	failures int
	pause    time.Duration
}

// Start begins the budget of one request.
func (b Budget) Start() *Backoff {
	return &Backoff{budget: b, deadline: time.Now().Add(b.Within), pause: b.First}
}

// Deadline returns the time after which no attempt begins. It is meaningless if Budget.Within is zero.
func (b *Backoff) Deadline() time.Time { return b.deadline }

// Pause returns the pause after a failure with err, a random time between half of the backoff and all of it. If err is a
// [modproxy.RetryLater], the pause is at least as long as that demands. ok is false if the budget is used up.
func (b *Backoff) Pause(err error) (pause time.Duration, ok bool) {
	b.failures++
	pause = b.pause/2 + rand.N(b.pause/2+1)
	if later, isLater := errors.AsType[*modproxy.RetryLater](err); isLater {
		pause = max(pause, time.Until(later.After))
	}
	switch {
	case b.budget.Tries > 0 && b.failures >= b.budget.Tries,
		b.budget.MaxWait > 0 && pause > b.budget.MaxWait,
		b.budget.Within > 0 && !time.Now().Add(pause).Before(b.deadline):
		return 0, false
	}
	if b.pause *= 2; b.budget.Most > 0 {
		b.pause = min(b.pause, b.budget.Most)
	}
	return pause, true
}

// Do calls try until it returns no error, or again as false, or the budget or the deadline of ctx leaves no time for the next
// pause. It returns the last error. If again was true, Do makes this error a [modproxy.Temporary], unless it is a
// [modproxy.RetryLater].
// Between attempts, Do reports errors to the callers that wait (see [modproxy.ReportError]).
func (b Budget) Do(ctx context.Context, try func() (again bool, err error)) error {
	for backoff := b.Start(); ; {
		again, err := try()
		if err == nil || !again {
			return err
		}
		pause, ok := backoff.Pause(err)
		if _, isLater := errors.AsType[*modproxy.RetryLater](err); !isLater {
			err = &modproxy.Temporary{Err: err}
		}
		if deadline, ends := ctx.Deadline(); !ok || ends && time.Until(deadline) <= pause {
			return err
		}
		modproxy.ReportError(ctx, err)
		if !sleep(ctx, pause) {
			return err
		}
	}
}

// sleep waits for d, and returns false if ctx ends before. Meanwhile the download of ctx lends its slot to others.
func sleep(ctx context.Context, d time.Duration) bool {
	defer modproxy.MeterOf(ctx).Begin()()
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// minLater is the shortest pause between two requests of [Later].
const minLater = 100 * time.Millisecond

// Later calls ask until its error is not a [modproxy.RetryLater], or is one with a time after the end of within, which begins with the
// first call. It returns the last answer and error. If ctx ends during a pause, Later returns the error of ctx.
func Later[T any](ctx context.Context, within time.Duration, ask func() (T, error)) (answer T, err error) {
	for end := time.Now().Add(within); ; {
		answer, err = ask()
		later, isLater := errors.AsType[*modproxy.RetryLater](err)
		if !isLater || later.After.After(end) {
			return answer, err
		}
		select {
		case <-time.After(max(time.Until(later.After), minLater)):
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}
