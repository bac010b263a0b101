package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/rig"
)

// simulated is a server that is available by a schedule.
type simulated struct {
	down func(time.Duration) bool // reports whether it is down at that time after the start
	fail func(context.Context) error

	start     time.Time
	whileDown atomic.Int64 // questions
}

// ways lists the ways in which a server is unavailable.
var ways = map[string]func(context.Context) error{
	"refuses": func(context.Context) error {
		return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	},
	"gateway": func(context.Context) error {
		time.Sleep(20 * time.Millisecond)
		return answered("registry.example", "502 Bad Gateway", http.StatusBadGateway)
	},
	"hangs": func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, context.DeadlineExceeded)
		}
	},
}

func (s *simulated) answer(ctx context.Context) (int, error) {
	at := time.Since(s.start)
	if s.down(at) {
		s.whileDown.Add(1)
		return 0, s.fail(ctx)
	}
	time.Sleep(50 * time.Millisecond)
	if s.down(time.Since(s.start)) {
		return 0, s.fail(ctx)
	}
	return 1, nil
}

// install asks like a client: two attempts of ten seconds with a second between them. The proxy waits three seconds of
// each attempt; its question continues.
func install(t *testing.T, g *Limiter, s *simulated, part string) bool {
	type result struct{ err error }
	var going chan result
	for range 2 {
		if going == nil {
			going = make(chan result, 1)
			go func(to chan result) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := Do(ctx, g, part, s.answer)
				to <- result{err}
			}(going)
		}
		select {
		case r := <-going:
			if r.err == nil {
				return true
			}
			going = nil
		case <-time.After(3 * time.Second):
		}
		time.Sleep(time.Second)
	}
	return false
}

// crowd sends requests at even intervals until end. It returns the requests and the successes, by the second in which
// the requests came.
func crowd(t *testing.T, g *Limiter, s *simulated, perSecond int, end time.Duration) (asked, succeeded []int64) {
	seconds := int(end / time.Second)
	asked, succeeded = make([]int64, seconds), make([]int64, seconds)
	s.start = time.Now()
	for i := range seconds * perSecond {
		second := i / perSecond
		go func() {
			ok := install(t, g, s, fmt.Sprintf("n%d", i%7))
			atomic.AddInt64(&asked[second], 1)
			if ok {
				atomic.AddInt64(&succeeded[second], 1)
			}
		}()
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	time.Sleep(time.Minute + 30*time.Second)
	synctest.Wait()
	return asked, succeeded
}

func sum(list []int64) (n int64) {
	for _, i := range list {
		n += i
	}
	return n
}

// If the server is available in every other period of two seconds, clients hardly notice.
func TestAServerThatComesAndGoes(t *testing.T) {
	for name, fail := range ways {
		for _, perSecond := range []int{1, 5, 40} {
			if !rig.Long() && perSecond == 40 && name != "gateway" {
				continue // thousands of goroutines each
			}
			t.Run(fmt.Sprintf("%s-%d", name, perSecond), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &simulated{fail: fail, down: func(at time.Duration) bool { return at%(4*time.Second) >= 2*time.Second }}
					asked, succeeded := crowd(t, New(Options{Hedges: true}), s, perSecond, 3*time.Minute)
					share := float64(sum(succeeded)) / float64(sum(asked))
					t.Logf("%.2f%% of %d requests succeeded; %d questions while it was down", 100*share, sum(asked), s.whileDown.Load())
					if share < 0.99 {
						t.Errorf("%.1f%% of the requests succeeded; want 99%%", 100*share)
					}
				})
			})
		}
	}
}

// A server that is down receives few questions. After it recovers, all clients soon succeed.
func TestAnOutageEnds(t *testing.T) {
	for name, fail := range ways {
		outages := []time.Duration{500 * time.Millisecond, 20 * time.Second}
		if rig.Long() {
			outages = append(outages, 2*time.Second, 2*time.Minute)
		}
		for _, outage := range outages {
			t.Run(fmt.Sprintf("%s-%v", name, outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &simulated{fail: fail, down: func(at time.Duration) bool { return at >= 10*time.Second && at < 10*time.Second+outage }}
					asked, succeeded := crowd(t, New(Options{Hedges: true}), s, 40, outage+30*time.Second)
					back := int((10*time.Second + outage + 999*time.Millisecond) / time.Second)
					for second := range asked {
						if second >= 10-5 && second < back+5 {
							continue // requests in the five seconds before the outage may have met it
						}
						if succeeded[second] < asked[second] {
							t.Errorf("second %d, of an outage from 10 to %d: %d of %d requests succeeded", second, back, succeeded[second], asked[second])
						}
					}
					perSecond := float64(s.whileDown.Load()) / max(outage.Seconds(), 5)
					t.Logf("%d questions while it was down, %.1f a second", s.whileDown.Load(), perSecond)
					if outage > 10*time.Second && perSecond > 4 {
						t.Errorf("%.1f questions a second while it was down; want a few", perSecond)
					}
				})
			})
		}
	}
}

// One missing answer does not affect other questions.
func TestOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Hedges: true})
		go Do(t.Context(), g, "acme", func(ctx context.Context) (int, error) { return 0, ways["hangs"](ctx) })
		for i := range 600 {
			time.Sleep(100 * time.Millisecond)
			asked := time.Now()
			_, err := Do(t.Context(), g, "acme", func(context.Context) (int, error) { return 1, nil })
			if took := time.Since(asked); err != nil || took > 0 {
				t.Fatalf("question %d: %v after %v", i, err, took)
			}
		}
		time.Sleep(time.Minute)
	})
}

// A question whose answer has begun is not repeated, however long the answer takes.
func TestOneThatComesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Hedges: true})
		sent := 0
		_, err := Do(t.Context(), g, "acme", func(ctx context.Context) (int, error) {
			sent++
			time.Sleep(time.Second)
			Begin(ctx)
			time.Sleep(30 * time.Second)
			return 1, nil
		})
		if err != nil || sent != 1 {
			t.Errorf("sent %d times: %v", sent, err)
		}
	})
}

// A question that panics ends in an error, and affects no other question.
func TestAskSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Hedges: true})
		for range 10 * defaultAtOnce {
			_, err := Do(t.Context(), g, "acme", func(context.Context) (int, error) { panic("of one answer") })
			if !errors.Is(err, modproxy.ErrUnavailable) {
				t.Fatalf("a panic: %v", err)
			}
		}
		if _, err := Do(t.Context(), g, "acme", func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Fatalf("after panics: %v", err)
		}
	})
}

// A client with more questions than a server accepts takes at most its share from other clients.
func TestFloodLeavesOthersTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Hedges: true})
		flood, stop := context.WithCancel(modproxy.WithClient(t.Context(), modproxy.Client{Name: "flood"}))
		go func() {
			for flood.Err() == nil {
				go Do(flood, g, "absent", func(context.Context) (int, error) {
					time.Sleep(30 * time.Millisecond)
					return 0, modproxy.ErrNotFound
				})
				time.Sleep(time.Second / 1800)
			}
		}()
		time.Sleep(10 * time.Second)
		other := modproxy.WithClient(t.Context(), modproxy.Client{Name: "other"})
		questions := 50
		if rig.Long() {
			questions = 300
		}
		for i := range questions {
			asked := time.Now()
			_, err := Do(other, g, "acme", func(context.Context) (int, error) { return 1, nil })
			if took := time.Since(asked); err != nil || took > time.Second {
				t.Fatalf("question %d of another: %v after %v", i, err, took)
			}
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		time.Sleep(time.Minute)
	})
}
