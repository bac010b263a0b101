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
			m := modproxy.Address{Host: vpc.Host, Namespace: "stalls", Name: fmt.Sprintf("m%d", i), System: "aws"}
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
		m := modproxy.Address{Host: vpc.Host, Namespace: "stalls", Name: "one-more", System: "aws"}
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
		drip := func(ctx context.Context, _ modproxy.Ref) error {
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
			m := modproxy.Address{Host: vpc.Host, Namespace: fmt.Sprintf("drips%d", i), Name: "m", System: "aws"}
			dripping.Go(func() {
				_, err := f.Package(t.Context(), m.At("1.0.0"))
				failed <- err
			})
		}
		time.Sleep(5 * time.Minute) // no other download waits
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

// hang waits for bytes that never come of the modules dead….
func hang(ctx context.Context, v modproxy.Ref) error {
	if !strings.HasPrefix(v.Name, "dead") {
		return nil
	}
	defer modproxy.MeterOf(ctx).Begin()()
	<-ctx.Done()
	return ctx.Err()
}

// Packages that do not come leave the turns of their publisher to others of it, and end when their clients have left; those that
// wait for a turn then are never asked for.
func TestClientsLeaveWhatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Registry = changed(t, f.Registry, func(c *cache.Config) { c.FetchTimeout = time.Hour })
		f.next.change(func(n *next) { n.receive = hang })
		var clients sync.WaitGroup
		for i := range 200 {
			clients.Go(func() {
				ctx, leave := context.WithTimeout(t.Context(), 10*time.Second)
				defer leave()
				m := modproxy.Address{Host: vpc.Host, Namespace: vpc.Namespace, Name: fmt.Sprint("dead", i), System: "aws"}
				if p, err := f.Package(ctx, m.At("1.0.0")); err == nil {
					p.Close()
					t.Errorf("%v came", m)
				}
			})
		}
		time.Sleep(5 * time.Second)
		start := time.Now()
		f.fetch(t, "1.0.0")
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("another package of the publisher took %v", took)
		}
		clients.Wait()
		time.Sleep(30 * time.Second)
		if n := len(f.Fetching()); n > 0 {
			t.Errorf("%d fetches are under way that nobody waits for", n)
		}
		if n := f.next.asked("package"); n > 100 {
			t.Errorf("%d packages were asked for", n)
		}
	})
}

// A fetch that is not for the cache lends its turn, too, while nothing comes.
func TestTurnsForOthersAreLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Registry = changed(t, f.Registry, func(c *cache.Config) { c.Fetches = 1 })
		held, give, err := f.Turn(t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		defer give()
		defer modproxy.MeterOf(held).Begin()()
		start := time.Now()
		f.fetch(t, "1.0.0")
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("another package took %v", took)
		}
		if held.Err() != nil {
			t.Error(context.Cause(held))
		}
	})
}

// A package that comes is fetched to its end, although its client has left.
func TestWhatComesIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) {
			n.receive = func(ctx context.Context, _ modproxy.Ref) error {
				meter := modproxy.MeterOf(ctx)
				defer meter.Begin()()
				for range 20 {
					time.Sleep(5 * time.Second)
					meter.Add(1)
				}
				return ctx.Err()
			}
		})
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := f.Package(ctx, vpc.At("1.0.0")); err == nil {
			t.Error("it came at once")
		}
		time.Sleep(2 * time.Minute)
		if l, err := f.Location(t.Context(), vpc.At("1.0.0")); err != nil || !l.Kept {
			t.Errorf("%v, %v", l, err)
		}
	})
}

// forbids is a gate that refuses everything once it is closed.
type forbids struct{ closed atomic.Bool }

func (g *forbids) CheckFetch(_ context.Context, v modproxy.Ref) error {
	if g.closed.Load() {
		return fmt.Errorf("%w: blocked meanwhile", modproxy.ErrDenied)
	}
	return nil
}

// A package that is denied while it waits for a slot is not requested. It is requested once it is allowed again.
func TestRefusedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gate := newFixture(t), &forbids{}
		f.Gate = gate
		f.Registry = changed(t, f.Registry, func(c *cache.Config) { c.Fetches = 1 })
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
