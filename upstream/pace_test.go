package upstream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

var (
	vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	toy = modproxy.NewProvider("registry.example.com", "acme", "toy")
)

// asked makes each client ask for the dates of n versions and returns the times of the answers. Each question takes 300
// ms.
func asked(ctx context.Context, p *pace, m modproxy.Address, clients []string, n int) map[string][]time.Duration {
	var mu sync.Mutex
	var work sync.WaitGroup
	began, when := time.Now(), map[string][]time.Duration{}
	for _, client := range clients {
		ctx := modproxy.WithClient(ctx, modproxy.Client{Name: client})
		for range n {
			work.Go(func() {
				leave, err := p.wait(ctx, m)
				if err != nil {
					return
				}
				defer leave()
				mu.Lock()
				when[client] = append(when[client], time.Since(began))
				mu.Unlock()
				time.Sleep(300 * time.Millisecond)
			})
		}
		synctest.Wait()
	}
	work.Wait()
	return when
}

// In the background a registry receives at most five questions for dates in a second, and 500 within five minutes. Each
// question about a provider is two requests. A question that a client waits for is not delayed.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		of   modproxy.Address
		most int // in a second
		end  time.Duration
	}{{vpc, 5, 3 * time.Minute}, {toy, 2, 5 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			p := newPace()
			when := asked(modproxy.InBackground(t.Context()), p, test.of, []string{"one"}, 500)["one"]
			if len(when) != 500 || when[499] > test.end {
				t.Errorf("%s: %d were asked for, the last one after %v", test.of, len(when), when[len(when)-1])
			}
			for i, at := range when {
				if after := i + test.most; after < len(when) && when[after]-at < time.Second {
					t.Fatalf("%s: %d within %v", test.of, test.most+1, when[after]-at)
				}
			}
			began := time.Now()
			asked(t.Context(), p, test.of, []string{"one"}, 500)
			if took := time.Since(began); took != 300*time.Millisecond {
				t.Errorf("%s: in the foreground it took %v", test.of, took)
			}
		})
	}
}

// A client that wants the dates of many modules does not block others. A question that a client begins to wait for
// continues at once.
func TestPaceIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		ctx := modproxy.InBackground(t.Context())
		when := asked(ctx, p, vpc, []string{"greedy", "other"}, 400)
		if at := when["other"][0]; at > 3*time.Second {
			t.Errorf("the other client had to wait %v", at)
		}
		if one, other := when["greedy"][399], when["other"][399]; one-other > 10*time.Second || other-one > 10*time.Second {
			t.Errorf("the last ones after %v and %v", one, other)
		}
		time.AfterFunc(10*time.Second, func() { modproxy.BringForward(ctx) })
		began := time.Now()
		asked(ctx, p, vpc, []string{"patient"}, 400)
		if took := time.Since(began); took != 10*time.Second+300*time.Millisecond {
			t.Errorf("brought forward, it took %v", took)
		}

		ctx, cancel := context.WithCancel(modproxy.InBackground(t.Context()))
		cancel()
		if _, err := p.wait(ctx, vpc); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("given up: %v", err)
		}
	})
}
