package cache_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// refresh is what a refresh says, in a few words.
func (f *fixture) refresh(t testing.TB) string {
	t.Helper()
	got, err := f.Refresh(t.Context(), vpc)
	if err != nil {
		return err.Error()
	}
	say := func(list []string) string { return strings.Join(list, " ") }
	return fmt.Sprintf("%d, new %s, gone %s, kept %s", got.Versions, say(got.New), say(got.Gone), say(got.Kept))
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		equal(t, "never asked for", f.refresh(t), "2, new 1.0.0 1.1.0, gone , kept ")
		equal(t, "nothing new", f.refresh(t), "2, new , gone , kept ")
		f.fetch(t, "1.0.0")
		f.next.change(func(n *next) { n.listed = "1.2.0 1.3.0-rc1" })
		equal(t, "fresh", f.versions(t), "1.0.0 1.1.0 hit")
		equal(t, "news", f.refresh(t), "3, new 1.2.0 1.3.0-rc1, gone 1.0.0 1.1.0, kept 1.0.0")
		equal(t, "served", f.versions(t), "1.2.0 1.3.0-rc1 1.0.0 hit")
		equal(t, "no news", f.refresh(t), "3, new , gone , kept ")
		f.next.change(func(n *next) { n.listed = "1.0.0" })
		equal(t, "back", f.refresh(t), "1, new 1.0.0, gone 1.2.0 1.3.0-rc1, kept ")
		f.restart(t)
		f.next.change(func(n *next) { n.listed = "1.0.0 1.4.0" })
		equal(t, "after a restart", f.refresh(t), "2, new 1.4.0, gone , kept ")
	})
}

// It forgets what was absent and what failed, and does not wait for a pause to end.
func TestRefreshForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		f.versions(t)
		f.location(t, "1.0.0")
		if got := f.refresh(t); !strings.HasSuffix(got, "not found: 404") {
			t.Errorf("still absent: %s", got)
		}
		f.next.change(func(n *next) { n.err = nil })
		equal(t, "published", f.refresh(t), "2, new 1.0.0 1.1.0, gone , kept ")
		equal(t, "there", f.location(t, "1.0.0"), "https://files.example.com/1.0.0")
		synctest.Wait()

		f.next.change(func(n *next) { n.pack = errors.New("broken") })
		f.location(t, "1.1.0")
		synctest.Wait()
		f.next.change(func(n *next) { n.pack = nil })
		if got := f.location(t, "1.1.0"); !strings.Contains(got, "broken") {
			t.Errorf("remembered: %s", got)
		}
		f.refresh(t)
		equal(t, "tried again", f.location(t, "1.1.0"), "https://files.example.com/1.1.0")
		synctest.Wait()

		f.next.change(func(n *next) { n.err = &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errors.New("429")} })
		f.refresh(t)
		f.next.change(func(n *next) { n.err, n.listed = nil, "2.0.0" })
		equal(t, "left alone", f.versions(t), "1.0.0 1.1.0 hit")
		equal(t, "asked all the same", f.refresh(t), "3, new 2.0.0, gone 1.0.0 1.1.0, kept 1.0.0 1.1.0")
	})
}

// A question that was under way before may have been answered before the version was
// published: it is not the answer.
func TestRefreshAsksByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.delay = time.Second })
		go f.Versions(t.Context(), vpc)
		time.Sleep(time.Second / 2)
		f.next.change(func(n *next) { n.listed = "1.0.0 1.2.0" })
		equal(t, "news", f.refresh(t), "2, new 1.0.0 1.2.0, gone , kept ")
		equal(t, "asked", f.next.asked("versions"), 2)
	})
}

// The requested modules of a registry are those with a stored list, also of an earlier process, and those that are missing.
func TestRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		absent, other, provider := vpc, vpc, modproxy.Address{Host: vpc.Host, Namespace: "acme", Name: "toy"}
		absent.Name, other.Host = "absent", vpc.Host+".example"
		requested := func() string {
			listed, missing, err := f.Requested(t.Context(), vpc.Host)
			return fmt.Sprint(listed, missing, err)
		}
		equal(t, "nothing", requested(), "[] [] <nil>")
		f.versions(t)
		f.Versions(t.Context(), other)
		f.Versions(t.Context(), provider)
		f.next.change(func(n *next) { n.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		f.Versions(t.Context(), absent)
		equal(t, "requested", requested(), fmt.Sprint([]modproxy.Address{provider, vpc}, []modproxy.Address{absent}, nil))
		f.Forget(absent.At(""))
		f.restart(t)
		equal(t, "after a restart", requested(), fmt.Sprint([]modproxy.Address{provider, vpc}, []modproxy.Address{}, nil))
	})
}

func TestRefreshOffline(t *testing.T) {
	f := newFixture(t)
	f.versions(t)
	f.offline(t)
	if _, err := f.Refresh(t.Context(), vpc); !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), "offline") {
		t.Errorf("offline: %v", err)
	}
}
