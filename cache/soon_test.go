package cache_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// The first client after Fresh sees a version that was published meanwhile, if
// upstream answers within a second.
func TestRefreshIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		time.Sleep(5 * time.Minute)
		f.next.change(func(n *next) { n.listed, n.delay = "1.0.0 1.1.0 1.2.0", 900*time.Millisecond })
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() { equal(t, "refreshed", f.versions(t), "1.0.0 1.1.0 1.2.0") })
		}
		group.Wait()
		equal(t, "asked", f.next.asked("versions"), 2)
		equal(t, "afterwards", f.versions(t), "1.0.0 1.1.0 1.2.0 hit")
		equal(t, "stale served", f.events.count(cache.StaleServed), 0)
	})
}

// A question that goes on for longer is not waited for: neither by those who come
// while it does, nor for a while by clients of other modules of the registry.
func TestSlowRefreshIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other, elsewhere := vpc, vpc
		other.Name, elsewhere.Host = "other", "registry.example.org"
		ask := func(what string, m modproxy.Address, stale bool, within time.Duration) {
			t.Helper()
			asked := time.Now()
			v, err := f.Versions(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, what+": stale", v.Stale, stale)
			equal(t, what+": took", time.Since(asked), within)
		}
		for _, m := range []modproxy.Address{vpc, other, elsewhere} {
			ask("cold", m, false, 0)
		}
		time.Sleep(6 * time.Minute)
		f.next.change(func(n *next) { n.delay = 20 * time.Second })
		ask("the first", vpc, true, time.Second)
		ask("the next", vpc, true, 0)
		ask("another module", other, true, 0)
		ask("another registry", elsewhere, true, time.Second)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		ask("what was answered late", vpc, false, 0)

		// It is still known to be slow when those questions end, and quick when one is
		// answered at once.
		f.next.change(func(n *next) { n.delay = 0 })
		time.Sleep(5 * time.Minute)
		ask("after a while", vpc, false, 0)
		f.next.change(func(n *next) { n.delay = time.Second / 2 })
		ask("quick again", other, false, time.Second/2)
	})
}

// If the modules of a host have several origins, those of one that is slow do not affect those of others.
func TestSlowOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		r := changed(t, f.Registry, func(c *cache.Config) { c.Origin = func(m modproxy.Address) string { return "forge of " + m.Namespace } })
		slow, same, other := vpc, vpc, vpc
		same.Name, other.Namespace = "other", "other"
		ask := func(m modproxy.Address, within time.Duration) {
			t.Helper()
			began := time.Now()
			if _, err := r.Versions(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			equal(t, m.String()+": took", time.Since(began), within)
		}
		for _, m := range []modproxy.Address{slow, same, other} {
			ask(m, 0)
		}
		time.Sleep(6 * time.Minute)
		f.next.change(func(n *next) { n.delay = 20 * time.Second })
		ask(slow, time.Second)
		ask(same, 0)
		f.next.change(func(n *next) { n.delay = time.Second / 2 })
		ask(other, time.Second/2)
		time.Sleep(time.Minute)
	})
}

func TestRefreshThatFailsSoonIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		time.Sleep(6 * time.Minute)
		f.next.change(func(n *next) { n.err, n.delay = errDown, time.Second/2 })
		asked := time.Now()
		equal(t, "it fails", f.versions(t), "1.0.0 1.1.0 hit stale")
		equal(t, "took", time.Since(asked), time.Second/2)
		for range 10 {
			equal(t, "in the pause", f.versions(t), "1.0.0 1.1.0 hit stale")
		}
		equal(t, "took", time.Since(asked), time.Second/2)
		equal(t, "asked", f.next.asked("versions"), 2)
	})
}

// A version that is asked for by name and is not listed is asked for upstream,
// whether the list is fresh or not, and the next list has it.
func TestUnlistedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		f.next.change(func(n *next) { n.listed = "1.0.0 1.1.0 1.2.0" })
		equal(t, "fresh", f.versions(t), "1.0.0 1.1.0 hit")
		equal(t, "listed", f.location(t, "1.1.0"), "https://files.example.com/1.1.0")
		synctest.Wait()
		equal(t, "still fresh", f.versions(t), "1.0.0 1.1.0 hit")
		equal(t, "not listed", f.location(t, "1.2.0"), "https://files.example.com/1.2.0")
		synctest.Wait()
		equal(t, "asked again", f.versions(t), "1.0.0 1.1.0 1.2.0")
		equal(t, "once", f.versions(t), "1.0.0 1.1.0 1.2.0 hit")
		equal(t, "asked", f.next.asked("versions"), 2)
	})
}

// Also when the list is not in memory, and when upstream does not list what it
// has: then it is asked once more, and the version is listed because it is kept.
func TestVersionThatIsNeverListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		f.restart(t)
		equal(t, "not listed", f.location(t, "0.9.0"), "https://files.example.com/0.9.0")
		synctest.Wait()
		for range 3 {
			f.versions(t)
			f.location(t, "0.9.0")
			synctest.Wait()
		}
		equal(t, "listed", f.versions(t), "1.0.0 1.1.0 0.9.0 hit")
		equal(t, "asked", f.next.asked("versions"), 2)
	})
}

// The memory of an absence ends when the version is listed, and is not longer than
// Missing from when upstream was asked.
func TestAbsenceThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		time.Sleep(5*time.Minute - time.Second)
		f.next.change(func(n *next) { n.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		if _, err := f.Location(t.Context(), vpc.At("1.2.0")); !errors.Is(err, modproxy.ErrNotFound) {
			t.Fatalf("absent: %v", err)
		}
		f.next.change(func(n *next) { n.err, n.listed = nil, "1.2.0" })
		time.Sleep(time.Second)
		equal(t, "listed", f.versions(t), "1.2.0")
		equal(t, "and there", f.location(t, "1.2.0"), "https://files.example.com/1.2.0")
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.err, n.delay = fmt.Errorf("%w: 404", modproxy.ErrNotFound), 2*time.Second })
		asked := time.Now()
		f.location(t, "1.2.0")
		f.next.change(func(n *next) { n.err, n.delay = nil, 0 })
		time.Sleep(30*time.Second - 1 - time.Since(asked))
		if _, err := f.Location(t.Context(), vpc.At("1.2.0")); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("within Missing: %v", err)
		}
		time.Sleep(time.Nanosecond)
		equal(t, "after Missing", f.location(t, "1.2.0"), "https://files.example.com/1.2.0")
	})
}
