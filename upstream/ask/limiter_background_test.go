package ask

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// answersAfter sends n questions through l at once. Each is answered after a duration; answersAfter waits for all
// answers.
func answersAfter(ctx context.Context, t *testing.T, l *Limiter, n int, after time.Duration) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			_, err := Do(ctx, l, "acme", func(context.Context) (int, error) {
				time.Sleep(after)
				return 0, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Background questions do not delay client questions: those have slots, and as many questions per second.
func TestGateAsksForClientsFirst(t *testing.T) {
	const takes = 100 * time.Millisecond
	for _, tt := range []struct {
		ctx  func(context.Context) context.Context
		wait bool
	}{
		{modproxy.InBackground, false},
		{func(ctx context.Context) context.Context { return ctx }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := New(Options{})
			ctx := tt.ctx(modproxy.WithClient(t.Context(), modproxy.Client{Name: "a"}))
			var run sync.WaitGroup
			run.Go(func() { answersAfter(ctx, t, l, 160, takes) }) // 100 at once, the others as the rate allows
			synctest.Wait()
			for i := range 10 {
				began := time.Now()
				answersAfter(modproxy.WithClient(t.Context(), modproxy.Client{Name: "a"}), t, l, 1, takes)
				if waited := time.Since(began) - takes; waited > 0 != tt.wait && i == 0 || waited > 0 && !tt.wait {
					t.Errorf("in the background is %v: a client waited %v", !tt.wait, waited)
				}
			}
			run.Wait()
		})
	}
}

// Client questions use the rate first. A background question that a client begins to wait for counts as a client
// question.
func TestGateKeepsTheRateForClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Rate: 8})
		wanted := modproxy.InBackground(t.Context())
		answersAfter(modproxy.InBackground(t.Context()), t, l, 6, 0) // leaves two at once for clients
		began := time.Now()
		var run sync.WaitGroup
		run.Go(func() { answersAfter(modproxy.InBackground(t.Context()), t, l, 1, 0) })
		run.Go(func() {
			answersAfter(wanted, t, l, 1, 0)
			equalTime(t, "what a client came to want", began, 10*time.Millisecond)
		})
		time.Sleep(10 * time.Millisecond)
		modproxy.BringForward(wanted)
		synctest.Wait()
		answersAfter(t.Context(), t, l, 1, 0)
		equalTime(t, "a client's question", began, 10*time.Millisecond)
		run.Wait()
		if time.Since(began) < 100*time.Millisecond {
			t.Errorf("one more in the background waited %v only", time.Since(began))
		}
	})
}

func equalTime(t *testing.T, what string, began time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(began); took != want {
		t.Errorf("%s took %v; want %v", what, took, want)
	}
}

// A client with more questions than the rate allows has its share of the rate. Another client does not wait behind its
// questions.
func TestGateSharesTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		flood := modproxy.WithClient(t.Context(), modproxy.Client{Name: "flood"})
		var run sync.WaitGroup
		run.Go(func() { answersAfter(flood, t, l, 400, time.Millisecond) }) // 100 at once, the others as the rate allows
		time.Sleep(time.Second)
		other := modproxy.WithClient(t.Context(), modproxy.Client{Name: "other"})
		for range 20 {
			began := time.Now()
			answersAfter(other, t, l, 1, time.Millisecond)
			if waited := time.Since(began); waited > 30*time.Millisecond { // for two questions: the next one of the flood, and its own
				t.Errorf("the other client waited %v", waited)
			}
		}
		run.Wait()
	})
}
