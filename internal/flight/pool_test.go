package flight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
)

// A pool bounds the running work. An owner has no more running work than there are free places.
func TestPoolIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, end := flight.NewPool(4), make(chan struct{})
		start := func(owner string, want bool) {
			t.Helper()
			err := pool.Go(owner, func() { <-end })
			if _, later := errors.AsType[*modproxy.RetryLater](err); later == want || want && err != nil {
				t.Errorf("work of %q: %v; want it started: %t", owner, err, want)
			}
		}
		start("a", true)
		start("a", true)
		start("a", false) // two of its own, and two free places
		start("b", true)
		start("b", false)
		start("", true)
		start("", false)
		close(end)
		synctest.Wait()
		start("a", true)
		pool.Stop()
		if err := pool.Go("c", func() {}); !errors.Is(err, flight.ErrClosed) || !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("after Stop: %v", err)
		}
		var group = flight.Group[string, int]{Pool: pool}
		if _, err := group.Join(t.Context(), "a", nil); !errors.Is(err, flight.ErrClosed) || group.IsRunning("a") {
			t.Errorf("a call after Stop: %v", err)
		}
		if err := pool.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The clients of a group share the places of its pool.
func TestClientsShareThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group, end := flight.Group[string, int]{Pool: flight.NewPool(2), PerClient: true}, make(chan struct{})
		defer close(end)
		join := func(client, key string) error {
			_, err := group.Join(modproxy.WithClient(t.Context(), modproxy.Client{Name: client}), key, func(context.Context) (int, error) {
				<-end
				return 0, nil
			})
			return err
		}
		if err := join("a", "1"); err != nil {
			t.Fatal(err)
		}
		if err := join("a", "2"); err == nil {
			t.Error("a client has all places")
		}
		if err := join("b", "2"); err != nil {
			t.Errorf("another client has no place: %v", err)
		}
		if err := join("a", "2"); err != nil {
			t.Errorf("a client cannot join the call of another: %v", err)
		}
	})
}

// Detached work ends with its pool and its timeout, and not with its caller. Background work ends earlier, unless it is brought
// forward before.
func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := flight.NewPool(0)
		caller, leave := context.WithCancel(t.Context())
		background := modproxy.InBackground(caller)
		foreground, end := pool.Detach(caller, 0)
		defer end()
		behind, end := pool.Detach(background, 0)
		defer end()
		timed, end := pool.Detach(caller, time.Minute)
		defer end()
		ended := func(what string, want [3]bool) {
			t.Helper()
			synctest.Wait()
			if is := [3]bool{foreground.Err() != nil, behind.Err() != nil, timed.Err() != nil}; is != want {
				t.Errorf("%s: ended %v, want %v", what, is, want)
			}
		}
		leave()
		ended("the caller left", [3]bool{})
		time.Sleep(time.Minute)
		ended("after the timeout", [3]bool{false, false, true})
		pool.EndBackground()
		ended("after EndBackground", [3]bool{false, true, true})
		if pool.Ends(foreground) || !pool.Ends(behind) {
			t.Error("Ends says something else")
		}
		pool.End()
		ended("after End", [3]bool{true, true, true})
		if !pool.Ends(foreground) || pool.Context().Err() == nil {
			t.Error("the pool has not ended")
		}
	})
}

// Wait returns when its context ends, and work goes on.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, end := flight.NewPool(0), make(chan struct{})
		if err := pool.Go("", func() { <-end }); err != nil {
			t.Fatal(err)
		}
		pool.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := pool.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while work runs: %v", err)
		}
		close(end)
		if err := pool.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
