package flight_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
)

type callerKey struct{}

// All callers of a key share one call, which outlives the first of them, and has its values.
func TestCallIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group flight.Group[string, int]
		first, leave := context.WithCancel(context.WithValue(t.Context(), callerKey{}, "first"))
		var calls atomic.Int32
		work := func(ctx context.Context) (int, error) {
			calls.Add(1)
			time.Sleep(time.Minute)
			if ctx.Err() != nil || ctx.Value(callerKey{}) != "first" {
				t.Errorf("the call has another context: %v, %v", ctx.Value(callerKey{}), ctx.Err())
			}
			return 7, nil
		}
		call, err := group.Join(first, "a", work)
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			_, err := call.Wait(first)
			failed <- err
		}()
		synctest.Wait()
		leave()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller left: %v", err)
		}
		second, err := group.Join(t.Context(), "a", work)
		if err != nil || second != call || !group.IsRunning("a") {
			t.Fatalf("the second caller has another call: %v", err)
		}
		if v, err := second.Wait(t.Context()); v != 7 || err != nil || calls.Load() != 1 {
			t.Errorf("%d, %v of %d calls", v, err, calls.Load())
		}
		if group.IsRunning("a") || len(group.Running()) != 0 {
			t.Error("the call is still known")
		}
	})
}

// A panic is the error of the call, and the next caller has another call.
func TestPanic(t *testing.T) {
	var group flight.Group[string, int]
	call, err := group.Join(t.Context(), "a", func(context.Context) (int, error) { panic("oops") })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Wait(t.Context()); err == nil {
		t.Error("a call that panicked has no error")
	}
	call, err = group.Join(t.Context(), "a", func(context.Context) (int, error) { return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	if v, err := call.Wait(t.Context()); v != 1 || err != nil {
		t.Errorf("the next call: %d, %v", v, err)
	}
}

// A call is in the background until a caller in the foreground joins it, or the caller that waits is brought forward.
func TestPromotion(t *testing.T) {
	for name, promote := range map[string]func(background context.Context, join func(context.Context)){
		"joined":  func(_ context.Context, join func(context.Context)) { join(t.Context()) },
		"forward": func(background context.Context, _ func(context.Context)) { modproxy.BringForward(background) },
		"later": func(_ context.Context, join func(context.Context)) {
			other := modproxy.InBackground(t.Context())
			join(other)
			modproxy.BringForward(other)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var group flight.Group[string, bool]
			background := modproxy.InBackground(t.Context())
			work := func(ctx context.Context) (bool, error) {
				before := modproxy.IsBackground(ctx)
				time.Sleep(time.Minute)
				return before && !modproxy.IsBackground(ctx), nil
			}
			join := func(ctx context.Context) *flight.Call[bool] {
				call, err := group.Join(ctx, "a", work)
				if err != nil {
					t.Fatal(err)
				}
				return call
			}
			call := join(background)
			synctest.Wait()
			promote(background, func(ctx context.Context) { join(ctx) })
			if promoted, err := call.Result(); !promoted || err != nil {
				t.Errorf("%s: promoted %t, %v", name, promoted, err)
			}
		})
	}
}

// A call publishes a part of its result, and reports errors, while it is running. A caller that leaves passes the last error on.
func TestRunningCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group flight.Group[string, int]
		trouble := errors.New("trouble")
		call, err := group.Join(t.Context(), "a", func(ctx context.Context) (int, error) {
			group.Publish("a", 1)
			modproxy.ReportError(ctx, trouble)
			time.Sleep(time.Minute)
			return 2, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-call.Published()
		if v := call.Partial(); v != 1 {
			t.Errorf("the part is %d", v)
		}
		synctest.Wait()
		var met modproxy.LastError
		ctx, cancel := context.WithTimeout(modproxy.WithLastError(t.Context(), &met), time.Second)
		defer cancel()
		if _, err := call.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || met.Get() != trouble || call.LastError() != trouble {
			t.Errorf("a caller that left: %v, after %v", err, met.Get())
		}
		if v, err := call.Result(); v != 2 || err != nil {
			t.Errorf("the result is %d, %v", v, err)
		}
	})
}

// A call knows for how long no caller has waited for it. In the foreground, callers in the background do not count.
func TestUnwantedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group flight.Group[string, int]
		work := make(chan context.Context, 1)
		call, err := group.Join(t.Context(), "a", func(ctx context.Context) (int, error) {
			work <- ctx
			time.Sleep(time.Hour)
			return 0, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx := <-work
		want := func(what string, d time.Duration) {
			t.Helper()
			if is := flight.UnwantedFor(ctx); is != d {
				t.Errorf("%s: unwanted for %v, want %v", what, is, d)
			}
		}
		time.Sleep(time.Second)
		want("before a caller waits", time.Second)
		leave := call.Hold(t.Context())
		time.Sleep(time.Second)
		want("while a caller waits", 0)
		leave()
		leave()
		defer call.Hold(modproxy.InBackground(t.Context()))()
		time.Sleep(2 * time.Second)
		want("after it has left", 2*time.Second)
		if d := flight.UnwantedFor(t.Context()); d != 0 {
			t.Errorf("outside a call: %v", d)
		}
		call.Result()
	})
}

// A timeout ends the context of a call.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := flight.Group[string, time.Duration]{Timeout: time.Minute}
		call, err := group.Join(t.Context(), "a", func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			<-ctx.Done()
			return time.Since(began), ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		if took, err := call.Result(); took != time.Minute || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", took, err)
		}
	})
}

// A memo calls a function once for each key, and remembers errors, too.
func TestMemo(t *testing.T) {
	var memo flight.Memo[string, int]
	calls := 0
	failure := errors.New("failure")
	for range 2 {
		if v, err := memo.Do("a", func() (int, error) { calls++; return calls, failure }); v != 1 || err != failure {
			t.Errorf("%d, %v", v, err)
		}
	}
	if v, err := memo.Do("b", func() (int, error) { return 2, nil }); v != 2 || err != nil || calls != 1 {
		t.Errorf("another key: %d, %v", v, err)
	}
}
