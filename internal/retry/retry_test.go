package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/retry"
)

var errFailed = errors.New("failed")

func later(d time.Duration) error {
	return &modproxy.RetryLater{After: time.Now().Add(d), Err: errFailed}
}

// Do repeats a request so often, with pauses that double, and returns the last error as a temporary one.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var met modproxy.LastError
		n, start := 0, time.Now()
		err := retry.Budget{Tries: 4, First: time.Second}.Do(modproxy.WithLastError(t.Context(), &met), func() (bool, error) {
			n++
			return true, errFailed
		})
		temporary, ok := errors.AsType[*modproxy.Temporary](err)
		if took := time.Since(start); n != 4 || !ok || temporary.Err != errFailed || took < 7*time.Second/2 || took > 7*time.Second {
			t.Errorf("%d attempts in %v: %v", n, took, err)
		}
		if met.Get() == nil {
			t.Error("the callers were not told of the failures")
		}
	})
}

// Do stops when a repetition is of no use, and when the request succeeds.
func TestFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		budget := retry.Budget{Tries: 4, First: time.Second}
		if err := budget.Do(t.Context(), func() (bool, error) { n++; return false, errFailed }); err != errFailed || n != 1 {
			t.Errorf("%d attempts: %v", n, err)
		}
		if err := budget.Do(t.Context(), func() (bool, error) {
			if n++; n < 3 {
				return true, errFailed
			}
			return true, nil
		}); err != nil || n != 3 {
			t.Errorf("%d attempts: %v", n, err)
		}
	})
}

// Do waits as long as the other side asks for, if that is not too long for the budget or the context.
func TestRetryLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := retry.Budget{Tries: 2, First: time.Second, MaxWait: 10 * time.Second}
		for wait, want := range map[time.Duration]int{5 * time.Second: 2, 11 * time.Second: 1} {
			n, start := 0, time.Now()
			err := budget.Do(t.Context(), func() (bool, error) { n++; return true, later(wait) })
			if _, ok := errors.AsType[*modproxy.RetryLater](err); !ok || n != want || time.Since(start) != time.Duration(n-1)*wait {
				t.Errorf("after %v: %d attempts in %v: %v", wait, n, time.Since(start), err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		n := 0
		if err := budget.Do(ctx, func() (bool, error) { n++; return true, later(5 * time.Second) }); n != 1 || ctx.Err() != nil {
			t.Errorf("%d attempts: %v, %v", n, err, ctx.Err())
		}
	})
}

// A backoff has a longest pause, and ends with its time.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retry.Budget{Within: 10 * time.Second, First: time.Second, Most: 2 * time.Second}.Start()
		n := 0
		for {
			pause, ok := b.Pause(errFailed)
			if !ok {
				break
			}
			if n++; pause > 2*time.Second || pause < time.Second/2 || n > 1 && pause < time.Second {
				t.Errorf("pause %d is %v", n, pause)
			}
			time.Sleep(pause)
		}
		if left := time.Until(b.Deadline()); n < 5 || left > 2*time.Second || left < 0 {
			t.Errorf("%d pauses, and %v are left", n, left)
		}
	})
}

// TestLater checks when a request is repeated, and with which answer Later ends.
func TestLater(t *testing.T) {
	broken := errors.New("broken")
	in := func(d time.Duration) error { return &modproxy.RetryLater{After: time.Now().Add(d), Err: broken} }
	for name, test := range map[string]struct {
		waits []time.Duration // that the answers demand; then there is an answer
		last  error           // with that answer
		calls int
		took  time.Duration
		ok    bool
	}{
		"at once":          {calls: 1, ok: true},
		"another error":    {last: broken, calls: 1},
		"later":            {waits: []time.Duration{5 * time.Second, 7 * time.Second}, calls: 3, took: 12 * time.Second, ok: true},
		"a past time":      {waits: []time.Duration{-time.Hour}, calls: 2, took: 100 * time.Millisecond, ok: true},
		"later than it is": {waits: []time.Duration{30 * time.Second, 31 * time.Second}, calls: 2, took: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, began := 0, time.Now()
				got, err := retry.Later(t.Context(), time.Minute, func() (int, error) {
					calls++
					if calls <= len(test.waits) {
						return 0, in(test.waits[calls-1])
					}
					return 7, test.last
				})
				if took := time.Since(began); calls != test.calls || took != test.took || (err == nil) != test.ok || test.ok && got != 7 {
					t.Errorf("%d calls in %v: %d, %v; want %d in %v", calls, took, got, err, test.calls, test.took)
				}
			})
		})
	}
}

// TestLaterEnds checks that Later ends with its context, with the error of that.
func TestLaterEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := retry.Later(ctx, time.Hour, func() (int, error) {
			return 0, &modproxy.RetryLater{After: time.Now().Add(time.Minute), Err: errors.New("busy")}
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
