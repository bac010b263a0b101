package cache_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

func TestDroppedVersionStaysListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		refreshed := func() string {
			t.Helper()
			time.Sleep(6 * time.Minute)
			f.versions(t)
			synctest.Wait()
			return f.versions(t)
		}
		dropped := func() (is bool) {
			t.Helper()
			for l, err := range f.List(t.Context(), vpc) {
				if err != nil || l.Version != "1.0.0" {
					t.Fatalf("%v: %v", l, err)
				}
				is = !l.Unlisted.IsZero()
			}
			return is
		}
		f.versions(t)
		f.fetch(t, "1.0.0")
		f.next.change(func(n *next) { n.listed = "2.0.0" })
		for range 3 {
			equal(t, "dropped", refreshed(), "2.0.0 1.0.0 hit")
			equal(t, "marked", dropped(), true)
		}
		v, err := f.Versions(t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		if l, _ := v.Find("1.0.0"); !strings.Contains(string(l.Entry), `"from"`) {
			t.Errorf("what upstream said of the version is lost: %s", l.Entry)
		}
		f.next.change(func(n *next) { n.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		equal(t, "module gone", refreshed(), "1.0.0 hit")
		f.restart(t)
		equal(t, "after a restart", f.versions(t), "1.0.0 hit")
		f.next.change(func(n *next) { n.err, n.listed = nil, "1.0.0 3.0.0" })
		equal(t, "listed again", refreshed(), "1.0.0 3.0.0 hit")
		equal(t, "marked", dropped(), false)
		equal(t, "told", f.events.count(cache.VersionListed), 1)
		if string(f.fetch(t, "1.0.0")) != string(f.next.content) {
			t.Error("another package")
		}
	})
}

func TestDroppedIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0")
		f.next.change(func(n *next) { n.listed = "2.0.0" })
		for range 3 {
			f.versions(t)
			synctest.Wait()
			time.Sleep(6 * time.Minute)
		}
		equal(t, "told", f.events.count(cache.VersionDropped), 1)
	})
}

// Versions with nothing but a stored package, as after the index was
// rebuilt, are listed with nothing but their version.
func TestPackagesAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0-rc1")
		f.fetch(t, "0.9.0")
		f.next.change(func(n *next) { n.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		equal(t, "module not found", f.versions(t), "0.9.0 1.0.0-rc1")
		f.next.change(func(n *next) { n.err, n.listed = nil, "1.0.0" })
		time.Sleep(6 * time.Minute)
		f.versions(t)
		synctest.Wait()
		equal(t, "found", f.versions(t), "1.0.0 0.9.0 1.0.0-rc1 hit")
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0")
		f.offline(t)
		equal(t, "offline", f.versions(t), "1.0.0 hit stale")
		other := vpc
		other.Name = "other"
		if _, err := f.Versions(t.Context(), other); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("offline, nothing kept: %v", err)
		}
	})
}
