package httpx

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// The waits of requests for lists and for packages.
const (
	shortWait = 3 * time.Second
	longWait  = 30 * time.Second
)

// wait returns how long err asks clients to wait; 0 if it does not.
func wait(err error) time.Duration {
	var later *modproxy.RetryLater
	if !errors.As(err, &later) {
		return 0
	}
	return time.Until(later.After)
}

// Requests beyond the bound wait for their turn: long for a package, because its client sends no second request, and otherwise no
// longer than the client waits.
func TestRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(Limits{Requests: 1})
		if err := a.enter(t.Context(), "", shortWait); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := a.enter(t.Context(), "", shortWait); wait(err) != time.Second || !errors.Is(err, errBusy) || time.Since(start) != shortWait {
			t.Errorf("after %v: %v, to wait %v", time.Since(start), err, wait(err))
		}
		go func() {
			time.Sleep(20 * time.Second)
			a.slots.Give("")
		}()
		if err := a.enter(t.Context(), "", longWait); err != nil {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := a.enter(gone, "", longWait); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a client that went: %v", err)
		}
		a.slots.Give("")
		if err := a.enter(t.Context(), "", shortWait); err != nil {
			t.Error(err)
		}
	})
}

// The number of requests that wait has a bound, too.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		a := NewAdmission(Limits{Requests: most})
		var in, refused atomic.Int32
		var all sync.WaitGroup
		start := time.Now()
		for range 5 * most {
			all.Go(func() {
				if err := a.enter(t.Context(), "", longWait); err == nil {
					in.Add(1)
				} else if time.Since(start) == 0 {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if in.Load() != most || refused.Load() != 3*most {
			t.Errorf("%d in, %d refused at once", in.Load(), refused.Load())
		}
	})
}

// A client is slowed down to its rate. Other clients are not.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(Limits{Rate: 4})
		start := time.Now()
		for range 4 + 8 { // at once, and one after the other
			if err := a.enter(t.Context(), "a", shortWait); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("12 requests at 4 a second, 4 of them at once, took %v", took)
		}
		if err := a.enter(t.Context(), "b", shortWait); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("another client: %v, after %v", err, time.Since(start))
		}
		const patient = shortWait - time.Second/8 // which ends between two turns
		var mu sync.Mutex
		var refused int
		var longest time.Duration
		var all sync.WaitGroup
		for range 40 { // at the same time
			all.Go(func() {
				if err := a.enter(t.Context(), "a", patient); err != nil {
					mu.Lock()
					defer mu.Unlock()
					refused++
					longest = max(longest, wait(err))
				}
			})
		}
		all.Wait()
		if want := 40 - int(patient/(time.Second/4)); refused != want || longest > shortWait+time.Second {
			t.Errorf("%d of 40 refused, to wait %v", refused, longest)
		}
		if err := a.enter(t.Context(), "a", shortWait); err != nil || time.Since(start) != 2*time.Second+shortWait {
			t.Errorf("after a flood: %v, after %v", err, time.Since(start))
		}
	})
}

func TestClientOf(t *testing.T) {
	known := auth.WithPrincipal(context.Background(), auth.Principal{Kind: auth.ByToken, ID: "abc", Name: "ci"})
	for _, c := range []struct {
		ctx           context.Context
		address, want string
	}{
		{known, "192.0.2.1", "token abc"},
		{context.Background(), "192.0.2.1", "192.0.2.1"},
		{context.Background(), "2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"},
		{context.Background(), "fe80::1%eth0", "fe80::/64"},
		{context.Background(), "@", "@"},
	} {
		if got := clientOf(auth.PrincipalOf(c.ctx), c.address); got != c.want {
			t.Errorf("%s: %s; want %s", c.address, got, c.want)
		}
	}
}
