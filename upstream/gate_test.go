package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

var errTrouble = fmt.Errorf("%w: GET https://registry.example/v1/modules/acme/secret: %w", modproxy.ErrUnavailable,
	&net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH})

// pass asks through g; it is the refusal of g, or nil when the question got through.
func pass(g *gate, outcome error) error {
	leave, err := g.enter(context.Background())
	if err == nil {
		leave(outcome)
	}
	return err
}

func TestGateSparesARegistryInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1000)
		for range gateFailures {
			if err := pass(g, errTrouble); err != nil {
				t.Fatal(err)
			}
		}
		// Now there are pauses, each twice the one before; after each one question
		// goes ahead.
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
			pause *= time.Second
			var later *modproxy.RetryLater
			if err := pass(g, nil); !errors.As(err, &later) || time.Until(later.After) != pause || !strings.Contains(err.Error(), "no route to host") {
				t.Fatalf("want a pause of %v: %v", pause, err)
			}
			if err := pass(g, nil); strings.Contains(err.Error(), "secret") {
				t.Fatalf("others are told who asked for what: %v", err)
			}
			time.Sleep(pause)
			leave, err := g.enter(t.Context())
			if err != nil {
				t.Fatalf("after %v: %v", pause, err)
			}
			if err := pass(g, nil); !errors.As(err, &later) {
				t.Fatalf("beside the one that tries: %v", err)
			}
			leave(errTrouble)
		}
		// One that succeeds ends it all.
		time.Sleep(30 * time.Second)
		for range 10 {
			if err := pass(g, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A registry that comes and goes is never given up, and one that says no is well.
func TestGateCountsNothingButTrouble(t *testing.T) {
	calm := []error{nil, modproxy.ErrNotFound, modproxy.ErrDenied, modproxy.ErrInvalid}
	// Of whatever one question can bring about, any number means nothing.
	for _, code := range []int{400, 414, 422, 500, 501} {
		calm = append(calm, &answered{"registry.example", http.StatusText(code), code})
	}
	calm = append(calm, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, modproxy.ErrInvalid)) // a document that is none
	for _, outcome := range calm {
		g := newGate(1_000_000)
		for i := range 100 {
			if err := pass(g, outcome); err != nil {
				t.Fatalf("%v, %d times: %v", outcome, i, err)
			}
		}
	}
	g := newGate(1_000_000)
	for i := range 1000 {
		outcome := errTrouble
		if i%gateFailures == 0 {
			outcome = calm[i/gateFailures%len(calm)]
		}
		if err := pass(g, outcome); err != nil {
			t.Fatalf("question %d: %v", i, err)
		}
	}
}

func TestGateKeepsToTheRegistrysWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(0)
		wish := &modproxy.RetryLater{After: time.Now().Add(time.Minute), Err: errTrouble}
		if err := pass(g, wish); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		var later *modproxy.RetryLater
		if err := pass(g, nil); !errors.As(err, &later) || !later.After.Equal(wish.After) {
			t.Errorf("before the time is over: %v", err)
		}
		time.Sleep(time.Second)
		if err := pass(g, nil); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestGateBoundsRateAndTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10)
		passed := 0
		for range 1000 { // ten seconds
			if err := pass(g, nil); err == nil {
				passed++
			} else if later := (*modproxy.RetryLater)(nil); !errors.As(err, &later) || time.Until(later.After) > time.Second {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if passed < 100 || passed > 111 {
			t.Errorf("%d questions in ten seconds; want 10 a second, and 10 at once", passed)
		}

		g = newGate(1000)
		for range gateTurns {
			if _, err := g.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.enter(ctx); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("one more: %v", err)
		}
	})
}
