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
	"github.com/modproxy/modproxy/store"
)

func (f *fixture) location(t testing.TB, version string) string {
	t.Helper()
	loc, err := f.Location(t.Context(), vpc.At(version))
	if err != nil {
		return err.Error()
	}
	return loc.String()
}

func TestLocationStartsTheFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.subdir, n.delay = "*/modules/a", time.Second })
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() {
				equal(t, "cold", f.location(t, "1.0.0"), "https://files.example.com/1.0.0//modules/a")
			})
		}
		group.Wait()
		equal(t, "package asked", f.next.asked("package"), 1)
		equal(t, "kept", f.location(t, "1.0.0"), "//modules/a")
		f.fetch(t, "1.0.0")
		f.next.change(func(n *next) { n.err = errDown })
		f.restart(t)
		equal(t, "after a restart", f.location(t, "1.0.0"), "//modules/a")
		f.offline(t)
		equal(t, "offline", f.location(t, "1.0.0"), "//modules/a")
		if _, err := f.Location(t.Context(), vpc.At("2.0.0")); !errors.Is(err, modproxy.ErrUnavailable) || errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("offline, not kept: %v", err)
		}
		equal(t, "location asked", f.next.asked("location"), 1)
		equal(t, "package asked", f.next.asked("package"), 1)
	})
}

// A fetch is waited for as long as there is time for the answer, and no longer.
func TestLocationWaitsALittleForThePackage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.fetched = func() { time.Sleep(time.Hour) } // beyond FetchTimeout, which the reader does not heed
		started := time.Now()
		f.location(t, "1.0.0")
		equal(t, "time", time.Since(started), 3500*time.Millisecond)
		time.Sleep(2 * time.Hour)
		if f.keeps(t, "1.0.0") {
			t.Error("a package that came after FetchTimeout was kept")
		}
	})
}

func TestLocationWaitsNoLongerThanWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.delay = 20 * time.Second
		started := time.Now()
		var later *modproxy.RetryLater
		if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.As(err, &later) || time.Since(started) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(started))
		}
		time.Sleep(time.Minute)
		equal(t, "the next one", f.location(t, "1.0.0"), "")
		equal(t, "asked", f.next.asked("location"), 1)
	})
}

func TestFetchThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.pack = fmt.Errorf("%w: the archive has a device in it", modproxy.ErrInvalid)
		f.location(t, "1.0.0")
		synctest.Wait()
		failed := time.Now()
		for range 10 {
			time.Sleep(2 * time.Second)
			_, err := f.Location(t.Context(), vpc.At("1.0.0"))
			var told *modproxy.FetchFailed
			if !errors.As(err, &told) || !errors.Is(err, modproxy.ErrInvalid) || !told.Time.Equal(failed) || !told.Again.Equal(failed.Add(30*time.Second)) {
				t.Fatalf("%v: %+v", err, told)
			}
			if _, err := read(f.Registry, "1.0.0"); !errors.As(err, &told) {
				t.Errorf("package: %v", err)
			}
		}
		equal(t, "package asked", f.next.asked("package"), 1)
		f.next.change(func(n *next) { n.pack = nil })
		time.Sleep(10 * time.Second)
		equal(t, "tried again", f.location(t, "1.0.0"), "https://files.example.com/1.0.0")
		synctest.Wait()
		equal(t, "kept", f.location(t, "1.0.0"), "")
		equal(t, "ended", f.events.count(cache.FetchEnded), 2)
	})
}

// The first client receives the reason why a package is not available.
func TestFetchThatFailsSoonIsToldAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		soon time.Duration // after which it is asked for again
	}{
		"content":                    {fmt.Errorf("%w: a device", modproxy.ErrInvalid), 30 * time.Second},
		"content that cannot change": {&modproxy.PermanentContent{Err: errors.New("a device")}, 24 * time.Hour},
		"other content":              {modproxy.ErrChanged, 30 * time.Second},
		"trouble":                    {modproxy.ErrUnavailable, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.next.change(func(n *next) { n.pack, n.delay = c.err, time.Second })
			for asked := 1; asked <= 2; asked++ {
				started := time.Now()
				if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.Is(err, c.err) || time.Since(started) > 2*time.Second {
					t.Errorf("%s: %v after %v", name, err, time.Since(started))
				}
				equal(t, name, f.next.asked("package"), asked)
				time.Sleep(c.soon - time.Second)
				if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.Is(err, c.err) {
					t.Errorf("%s: remembered: %v", name, err)
				}
				equal(t, name, f.next.asked("package"), asked)
				time.Sleep(time.Second)
			}
			f.Forget(vpc.At("1.0.0"))
			f.next.change(func(n *next) { n.pack = nil })
			if loc, err := f.Location(t.Context(), vpc.At("1.0.0")); err != nil || !loc.Kept {
				t.Errorf("%s: forgotten: %+v, %v", name, loc, err)
			}
		})
	}
}

// While a package that was refused for its content is downloaded again for longer than there is
// time for the answer, the answer is that reason; a temporary error is not an answer.
func TestRefusedPackageThatIsFetchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []error{modproxy.ErrInvalid, modproxy.ErrUnavailable} {
			f := newFixture(t)
			f.next.change(func(n *next) { n.pack = c })
			f.location(t, "1.0.0")
			time.Sleep(time.Minute)
			f.next.change(func(n *next) { n.pack, n.fetched = nil, func() { time.Sleep(10 * time.Second) } })
			_, err := f.Location(t.Context(), vpc.At("1.0.0"))
			equal(t, c.Error(), errors.Is(err, modproxy.ErrInvalid), c == modproxy.ErrInvalid)
			time.Sleep(10 * time.Second)
			equal(t, "in the end", f.location(t, "1.0.0"), "")
		}
	})
}

func TestVersionNotFoundIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound)
		for range 10 {
			if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.Is(err, modproxy.ErrNotFound) {
				t.Errorf("Location = %v", err)
			}
			if _, err := read(f.Registry, "1.0.0"); !errors.Is(err, modproxy.ErrNotFound) {
				t.Errorf("Package = %v", err)
			}
			f.location(t, "1.0.1")
		}
		equal(t, "asked", f.next.asked("location"), 2)
		equal(t, "asked", f.next.asked("package"), 0)
		f.next.change(func(n *next) { n.err = nil })
		time.Sleep(time.Minute)
		equal(t, "found", f.location(t, "1.0.0"), "https://files.example.com/1.0.0")
	})
}

func TestLocationRetryLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.err = &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errors.New("429")}
		var later *modproxy.RetryLater
		for _, version := range []string{"1.0.0", "1.0.0", "1.0.1"} {
			if _, err := f.Location(t.Context(), vpc.At(version)); !errors.As(err, &later) {
				t.Errorf("%s: %v", version, err)
			}
		}
		if _, err := f.Versions(t.Context(), vpc); !errors.As(err, &later) {
			t.Errorf("versions: %v", err)
		}
		equal(t, "asked", f.next.asked("location")+f.next.asked("versions"), 1)
	})
}

// A client that asks for the location again after the package's fetch was held
// up is told, and upstream is left alone.
func TestFetchRetryLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.pack = &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errors.New("429")}
		f.location(t, "1.0.0")
		synctest.Wait()
		time.Sleep(59 * time.Minute)
		var failed *modproxy.FetchFailed
		if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.As(err, &failed) || time.Until(failed.Again) != time.Minute {
			t.Errorf("%v %+v", err, failed)
		}
		equal(t, "package asked", f.next.asked("package"), 1)
	})
}

// The directory of a package that clients received stays the same.
func TestSubdirChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.subdir = "modules/good"
		f.fetch(t, "1.0.0")
		f.evict(t)
		f.restart(t)
		f.next.change(func(n *next) { n.subdir = "examples/evil" })
		if _, err := read(f.Registry, "1.0.0"); !errors.Is(err, modproxy.ErrChanged) {
			t.Errorf("fetched again: %v", err)
		}
		if loc, err := f.Location(t.Context(), vpc.At("1.0.0")); err == nil && loc.Subdir != "modules/good" {
			t.Errorf("clients are told %q", loc.Subdir)
		}
		// Between the answer and the fetch.
		f.next.change(func(n *next) { n.subdir = "modules/good"; n.delay = time.Second })
		if loc, err := f.Location(t.Context(), vpc.At("2.0.0")); err != nil || loc.Subdir != "modules/good" {
			t.Fatal(loc, err)
		}
		f.next.change(func(n *next) { n.subdir = "examples/evil" })
		time.Sleep(time.Minute)
		for l, err := range f.List(t.Context(), vpc) {
			if err != nil || l.Subdir != "modules/good" {
				t.Errorf("kept %s with %q, %v", l.Version, l.Subdir, err)
			}
		}
	})
}

// After a package was removed, its download is tried again.
func TestDiscardForgetsThatAFetchFailed(t *testing.T) {
	for _, version := range []string{"", "1.0.0"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.next.pack = &modproxy.PermanentContent{Err: errors.New("a device")}
			f.location(t, "1.0.0")
			f.next.change(func(n *next) { n.pack = nil })
			f.Discard(t.Context(), vpc.At(version)) // nothing is stored
			equal(t, "tried again", f.location(t, "1.0.0"), "https://files.example.com/1.0.0")
		})
	}
}

// keeps reports whether the package of a version is kept and counts.
func (f *fixture) keeps(t *testing.T, version string) (is bool) {
	t.Helper()
	for l, err := range f.List(t.Context(), vpc) {
		if err != nil {
			t.Fatal(err)
		}
		is = is || l.Version == version
	}
	return is
}

// evict removes every package.
func (f *fixture) evict(t *testing.T) {
	t.Helper()
	for blob, err := range f.storage.Blobs().Blobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.storage.Blobs().Remove(t.Context(), store.Evict, blob.Digest); err != nil {
			t.Fatal(err)
		}
	}
}
