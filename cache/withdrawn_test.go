package cache_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// withdraw has the registry list no more than listed, and removes the package of 1.0.0. It returns what is listed then.
func (f *fixture) withdraw(t *testing.T, listed string) string {
	t.Helper()
	f.next.change(func(n *next) {
		n.listed = listed
		if n.pack = fmt.Errorf("%w: 404", modproxy.ErrNotFound); listed == "" {
			n.err = n.pack
		}
	})
	if _, err := f.Discard(t.Context(), vpc.At("1.0.0")); err != nil {
		t.Fatal(err)
	}
	return f.relisted(t)
}

// relisted returns what is listed after the registry was asked again.
func (f *fixture) relisted(t *testing.T) string {
	t.Helper()
	time.Sleep(6 * time.Minute)
	f.versions(t)
	synctest.Wait()
	return f.versions(t)
}

// What its registry lists no more and was removed here is listed as long as its recorded source has it, and fetched from
// there; what was never recorded is not.
func TestWithdrawn(t *testing.T) {
	for listed, want := range map[string]string{"1.1.0": "1.1.0 1.0.0 hit", "": "1.0.0 hit"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.next.listed = "0.9.0 1.0.0"
			f.versions(t)
			f.fetch(t, "1.0.0")
			equal(t, "withdrawn", f.withdraw(t, listed), want)
			equal(t, "told", f.events.count(cache.VersionDropped), 1)
			if loc, err := f.Location(t.Context(), vpc.At("1.0.0")); err != nil || loc.Subdir != "" {
				t.Errorf("location: %v, %v", loc, err)
			}
			if string(f.fetch(t, "1.0.0")) != string(f.next.content) || f.next.asked("at") != 1 {
				t.Errorf("the recorded source was asked %d times", f.next.asked("at"))
			}
			if _, err := f.Location(t.Context(), vpc.At("0.9.0")); !errors.Is(err, modproxy.ErrNotFound) {
				t.Errorf("never recorded: %v", err)
			}
			equal(t, "its place is known", f.Withdrawn(t.Context(), cache.RefOf(vpc.At("1.0.0"))), true)
			equal(t, "that of another", f.Withdrawn(t.Context(), cache.RefOf(vpc.At("1.1.0"))), false)
			f.next.change(func(n *next) { n.listed, n.err = "1.0.0 1.1.0", nil })
			equal(t, "listed again", f.relisted(t), "1.0.0 1.1.0 hit")
			equal(t, "its place is known", f.Withdrawn(t.Context(), cache.RefOf(vpc.At("1.0.0"))), false)
		})
	}
}

// A version that its source says it does not have is not listed for a day, so that clients with a range choose another one.
func TestWithdrawnAtItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0")
		equal(t, "withdrawn", f.withdraw(t, "1.1.0"), "1.1.0 1.0.0 hit")

		f.next.change(func(n *next) { n.at = errDown })
		if _, err := read(f.Registry, "1.0.0"); !errors.Is(err, modproxy.ErrUnavailable) || errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("from a source that is unavailable: %v", err)
		}
		equal(t, "while it is unavailable", f.relisted(t), "1.1.0 1.0.0 hit")

		f.next.change(func(n *next) { n.at = modproxy.ErrNotFound })
		if _, err := read(f.Registry, "1.0.0"); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("from a source without it: %v", err)
		}
		synctest.Wait()
		f.versions(t)
		synctest.Wait()
		equal(t, "without it", f.versions(t), "1.1.0 hit")
		time.Sleep(time.Hour)
		equal(t, "later", f.relisted(t), "1.1.0 hit")
		if _, err := f.Refresh(t.Context(), vpc); err != nil {
			t.Fatal(err)
		}
		equal(t, "refreshed", f.versions(t), "1.1.0 1.0.0 hit")

		f.next.change(func(n *next) { n.at, n.content = nil, []byte("another") })
		if _, err := read(f.Registry, "1.0.0"); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("from a source with other content: %v", err)
		}
		equal(t, "with other content", f.relisted(t), "1.1.0 hit")
		time.Sleep(24 * time.Hour)
		equal(t, "a day later", f.relisted(t), "1.1.0 1.0.0 hit")
	})
}

// What the ledger knows is not listed while it does not answer; the rest is.
func TestWithdrawnWithoutTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0")
		f.withdraw(t, "1.1.0")
		f.ledger.Fail(errDown)
		equal(t, "without the ledger", f.relisted(t), "1.1.0 hit")
		f.ledger.Fail(nil)
		equal(t, "with it", f.relisted(t), "1.1.0 1.0.0 hit")
		f.ledger.Fail(errDown)
		f.next.change(func(n *next) { n.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		equal(t, "without both", f.relisted(t), "1.1.0 1.0.0 hit stale")
	})
}
