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
