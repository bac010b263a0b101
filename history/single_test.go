package history_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// many makes the registry list n versions and return their dates one by one.
func (f *fixture) many(t *testing.T, n int) (newest, oldest string) {
	t.Helper()
	f.dates.single, f.dates.pace, f.dates.give = true, time.Second, map[string]time.Time{}
	var versions []string
	for i := range n {
		versions = append(versions, fmt.Sprintf("1.%d.0", i))
		f.dates.give[versions[i]] = ago(1000 * time.Hour)
	}
	f.list(t, strings.Join(versions, " "))
	return versions[n-1], versions[0]
}

// A registry that must be asked for each version is asked in the background, for the newest version first, and once.
func TestDatesOneByOne(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		newest, oldest := f.many(t, 500)
		began := time.Now()
		s := firstSeenOf(t, f.FirstSeen, vpc)
		if waited := time.Since(began); waited > 2*time.Second || s.Pending[newest] || !s.Pending[oldest] || len(s.Pending) > 499 {
			t.Errorf("after %v, %d are pending", waited, len(s.Pending))
		}
		began = time.Now()
		for range 10 {
			firstSeenOf(t, f.FirstSeen, vpc)
		}
		equal(t, "waited again", time.Since(began), 0)
		time.Sleep(time.Minute)
		s = firstSeenOf(t, f.FirstSeen, vpc)
		if n := len(s.Pending); n < 200 || n > 300 || !s.Pending[oldest] {
			t.Errorf("%d are pending after a minute", n)
		}
		time.Sleep(4 * time.Minute)
		s = firstSeenOf(t, f.FirstSeen, vpc)
		equal(t, "since", since(s, newest, oldest), "1000.1 1000.1")
		equal(t, "pending", len(s.Pending), 0)
		equal(t, "asked about each", f.dates.singles(), 500)
		f.restart()
		time.Sleep(48 * time.Hour)
		equal(t, "asked all at once", len(strings.Split(f.dates.asks(), ";")), 1)
		firstSeenOf(t, f.FirstSeen, vpc)
		synctest.Wait()
		equal(t, "asked again", f.dates.asks(), "")
		equal(t, "asked about any again", f.dates.singles(), 0)
		equal(t, "failed", f.failures(), 0)
	})
}

// The version that a client requests comes before others. An operator waits for all versions.
func TestDatesThatAreNeeded(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		_, oldest := f.many(t, 500)
		began := time.Now()
		s, err := f.FirstSeen.Of(modproxy.WithDateOf(t.Context(), oldest), vpc)
		if err != nil || s.Pending[oldest] || since(s, oldest) != "1000.0" || time.Since(began) > 4*time.Second {
			t.Errorf("after %v: %s, %v", time.Since(began), since(s, oldest), err)
		}
		began = time.Now()
		s, err = f.FirstSeen.Of(modproxy.WithDates(modproxy.WithDateOf(t.Context(), "1.100.0")), vpc)
		if err != nil || since(s, "1.100.0") != "1000.0" || time.Since(began) > time.Second {
			t.Errorf("for an operator, after %v: %s, %v", time.Since(began), since(s, "1.100.0"), err)
		}
		if s, err = f.FirstSeen.Of(modproxy.WithDates(t.Context()), vpc); err != nil || len(s.Pending) > 0 || since(s, "1.7.0") != "1000.0" {
			t.Errorf("all: %d are pending, %v", len(s.Pending), err)
		}
		equal(t, "what all took", time.Since(began) < 2*time.Second, true)
		if n := f.dates.singles(); n > 502 {
			t.Errorf("asked about %d", n)
		}
	})
}

// A registry is not asked again about a version without a date, even if it has dates for others.
func TestDateless(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		_, oldest := f.many(t, 20)
		f.dates.give[oldest] = time.Time{}
		firstSeenOf(t, f.FirstSeen, vpc)
		time.Sleep(time.Minute)
		s := firstSeenOf(t, f.FirstSeen, vpc)
		equal(t, "since", since(s, "1.1.0", oldest), "1000.0 untimed")
		equal(t, "pending", len(s.Pending), 0)
		equal(t, "asked", f.dates.singles(), 20)
		f.dates.asks()
		for range 48 {
			time.Sleep(time.Hour)
			firstSeenOf(t, f.FirstSeen, vpc)
		}
		equal(t, "asked again", f.dates.singles(), 0)
		equal(t, "asked for all again", f.dates.asks(), "")
	})
}

// A version that fails does not stop requests for others. After a general failure, the registry is not asked for a minute,
// and then only for the remaining versions. The same applies after a restart.
func TestDatesFailOneByOne(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.many(t, 100)
		f.dates.one = func(_ context.Context, version string) (time.Time, error) {
			if version == "1.50.0" {
				return time.Time{}, modproxy.ErrUnavailable
			}
			return f.dates.give[version], nil
		}
		firstSeenOf(t, f.FirstSeen, vpc)
		time.Sleep(time.Minute)
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "1.50.0", "1.99.0"), "1000.0 untimed 1000.0")
		equal(t, "asked", f.dates.singles(), 100)
		f.dates.one = nil
		time.Sleep(time.Hour)
		firstSeenOf(t, f.FirstSeen, vpc)
		time.Sleep(2 * time.Second)
		equal(t, "later", since(firstSeenOf(t, f.FirstSeen, vpc), "1.50.0"), "1001.0")
		equal(t, "asked", f.dates.singles(), 1)
	})
	later(t, func(t *testing.T, f *fixture) {
		f.many(t, 100)
		firstSeenOf(t, f.FirstSeen, vpc)
		time.Sleep(10 * time.Second)
		f.dates.mu.Lock()
		f.dates.one = func(context.Context, string) (time.Time, error) { return time.Time{}, modproxy.ErrUnavailable }
		f.dates.mu.Unlock()
		time.Sleep(10 * time.Second)
		asked := f.dates.singles()
		if asked < 20 || asked > 80 {
			t.Errorf("asked about %d", asked)
		}
		equal(t, "failed", f.failures(), 1)
		firstSeenOf(t, f.FirstSeen, vpc)
		synctest.Wait()
		equal(t, "asked while it is left alone", f.dates.singles(), 0)
		f.dates.mu.Lock()
		f.dates.one = nil
		f.dates.mu.Unlock()
		f.restart()
		firstSeenOf(t, f.FirstSeen, vpc)
		time.Sleep(time.Minute)
		equal(t, "pending", len(firstSeenOf(t, f.FirstSeen, vpc).Pending), 0)
		if again := f.dates.singles(); asked+again > 130 || again > 90 {
			t.Errorf("asked about %d, then about %d", asked, again)
		}
	})
}

// The work of one client is limited, and does not stop the work of others.
func TestDatesOfManyModules(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.many(t, 100)
		began := map[string]int{}
		for _, client := range []string{"one", "other"} {
			ctx := modproxy.WithClient(t.Context(), modproxy.Client{Name: client})
			for i := range 100 {
				m := vpc
				m.Name = fmt.Sprintf("%s%d", client, i)
				if _, err := f.Versions(ctx, m); err != nil {
					t.Fatal(err)
				}
				f.dates.asks()
				go func() {
					s, err := f.FirstSeen.Of(ctx, m)
					if err != nil || len(s.Pending) == 0 {
						t.Errorf("%v: %d are pending, %v", m, len(s.Pending), err)
					}
				}()
				synctest.Wait()
				if f.dates.asks() != "" {
					began[client]++
				}
			}
		}
		equal(t, "begun for the one", began["one"], 64)
		equal(t, "begun for the other", began["other"], 64)
		time.Sleep(3 * time.Second)
		f.FirstSeen.Close()
	})
}

// Close ends all work in progress, and no work begins afterwards.
func TestCloseDates(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		_, oldest := f.many(t, 100)
		firstSeenOf(t, f.FirstSeen, vpc)
		ctx, cancel := context.WithTimeout(modproxy.WithDateOf(t.Context(), oldest), time.Second/2)
		defer cancel()
		if _, err := f.FirstSeen.Of(ctx, vpc); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("one that leaves: %v", err)
		}
		began := time.Now()
		f.FirstSeen.Close()
		equal(t, "took", time.Since(began), 0)
		f.dates.singles()
		firstSeenOf(t, f.FirstSeen, vpc)
		synctest.Wait()
		equal(t, "asked", f.dates.singles(), 0)
		equal(t, "failed", f.failures(), 0)
	})
}
