package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// The packages of one publisher that do not come to an end leave turns, and places
// to wait, for those of others.
func TestOnePublisherDoesNotTakeAllTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.delay = time.Hour })
		var stalled sync.WaitGroup
		for i := range 1100 {
			m := modproxy.Module{Host: vpc.Host, Namespace: "stalls", Name: fmt.Sprintf("m%d", i), System: "aws"}
			stalled.Go(func() { f.Package(t.Context(), m.At("1.0.0")) })
		}
		synctest.Wait()
		f.next.change(func(n *next) { n.delay = time.Second })
		start := time.Now()
		f.fetch(t, "1.0.0")
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("a package of another publisher took %v", took)
		}
		var later *modproxy.RetryLater
		m := modproxy.Module{Host: vpc.Host, Namespace: "stalls", Name: "one-more", System: "aws"}
		if _, err := f.Package(t.Context(), m.At("1.0.0")); !errors.As(err, &later) {
			t.Errorf("one more of the publisher: %v", err)
		}
		mustClose(t, f.Registry)
		stalled.Wait()
	})
}

// Packages that hardly come give up their turns while others wait for one.
func TestSlowPackagesGiveUpTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		drip := func(ctx context.Context) error {
			meter := modproxy.MeterOf(ctx)
			defer meter.Begin()()
			for range 14 * 60 {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Second):
				}
				meter.Add(2 << 10)
			}
			return nil
		}
		f.next.change(func(n *next) { n.receive = drip })
		var dripping sync.WaitGroup
		failed := make(chan error, 8)
		for i := range 8 {
			m := modproxy.Module{Host: vpc.Host, Namespace: fmt.Sprintf("drips%d", i), Name: "m", System: "aws"}
			dripping.Go(func() {
				_, err := f.Package(t.Context(), m.At("1.0.0"))
				failed <- err
			})
		}
		time.Sleep(5 * time.Minute) // nobody waits, so they may take their time
		if len(failed) > 0 {
			t.Fatalf("nobody waited: %v", <-failed)
		}
		f.next.change(func(n *next) { n.receive = nil })
		start := time.Now()
		f.fetch(t, "1.0.0")
		if took := time.Since(start); took > time.Minute {
			t.Errorf("a package of another publisher took %v", took)
		}
		if err := <-failed; !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), "KiB/s") {
			t.Errorf("a slow one: %v", err)
		}
		mustClose(t, f.Registry)
		dripping.Wait()
	})
}

// forbids is a gate that refuses everything once it is closed.
type forbids struct{ closed atomic.Bool }

func (g *forbids) CheckFetch(_ context.Context, v modproxy.ModuleVersion) error {
	if g.closed.Load() {
		return fmt.Errorf("%w: blocked meanwhile", modproxy.ErrDenied)
	}
	return nil
}

// What is refused while it waits for a turn is not asked for, and that is forgotten once it is allowed again.
func TestRefusedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gate := newFixture(t), &forbids{}
		f.Gate = gate
		f.Fetches = 1
		f.next.change(func(n *next) { n.delay = time.Minute })
		var group sync.WaitGroup
		group.Go(func() { f.fetch(t, "1.0.0") })
		synctest.Wait()
		group.Go(func() {
			if _, err := read(f.Registry, "1.1.0"); !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), "blocked meanwhile") {
				t.Errorf("what was refused while it waited: %v", err)
			}
		})
		synctest.Wait()
		gate.closed.Store(true)
		group.Wait()
		equal(t, "location asked", f.next.asked("location"), 1)
		equal(t, "package asked", f.next.asked("package"), 1)
		equal(t, "started", f.events.count(cache.FetchStarted), 1)
		gate.closed.Store(false)
		f.fetch(t, "1.1.0")
		equal(t, "package asked", f.next.asked("package"), 2)
	})
}
