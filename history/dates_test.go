package history_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

// A registry's date counts unless it is later than the first-seen time. Dates are requested once an hour, and when a new
// version is listed.
func TestDates(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.dates.give = map[string]time.Time{"1.0.0": ago(100 * time.Hour), "9.0.0": ago(time.Hour)}
		firstSeenOf(t, f.FirstSeen, vpc)
		equal(t, "asked about what is not seen", f.dates.asks(), "")
		f.list(t, "1.0.0 10.0.0 v2.0.0-rc1 2.0.0 1.9.0+a")
		equal(t, "asked before anybody wants to know", f.dates.asks(), "")
		for range 3 {
			equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0", "9.0.0"), "100.0 untimed ?")
		}
		equal(t, "asked", f.dates.asks(), "10.0.0 2.0.0 2.0.0-rc1 1.9.0+a 1.0.0")
		f.restart()
		time.Sleep(59 * time.Minute)
		firstSeenOf(t, f.FirstSeen, vpc)
		equal(t, "asked within the hour", f.dates.asks(), "")
		f.dates.give["2.0.0"], f.dates.give["1.0.0"] = ago(10*time.Hour), ago(time.Hour) // the registry has changed its dates
		time.Sleep(time.Minute)
		f.dates.takes = time.Second // no client waits for this
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0"), "101.0 untimed")
		time.Sleep(2 * time.Second)
		for range 3 {
			equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0"), "101.0 10.0")
		}
		equal(t, "asked after an hour", f.dates.asks(), "10.0.0 2.0.0 2.0.0-rc1 1.9.0+a")
		time.Sleep(time.Minute)
		f.list(t, "1.0.0 3.0.0")
		f.dates.give["3.0.0"] = ago(2 * time.Minute)
		time.Sleep(5 * time.Second)
		s := firstSeenOf(t, f.FirstSeen, vpc)
		if at := time.Since(s.Since("3.0.0")); at != 2*time.Minute+6*time.Second {
			t.Errorf("the new version is listed since %v", at)
		}
		equal(t, "asked for the new one", f.dates.asks(), "10.0.0 3.0.0 2.0.0-rc1 1.9.0+a")
	})
}

// The dates of a provider's signer count for versions that were listed when the provider was first seen. Later versions have
// their first-seen time.
func TestDatesOfProvider(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		toy := modproxy.NewProvider("registry.example.com", "acme", "toy")
		f.dates.give = map[string]time.Time{"1.0.0": ago(100 * time.Hour), "2.0.0": ago(100 * time.Hour)}
		for _, versions := range []string{"1.0.0", "1.0.0 2.0.0"} {
			f.next.list(versions)
			if _, err := f.Versions(t.Context(), toy); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, toy), "1.0.0", "2.0.0"), "102.0 1.0")
		equal(t, "asked", f.dates.asks(), "1.0.0")
		time.Sleep(48 * time.Hour)
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, toy), "1.0.0", "2.0.0"), "150.0 49.0")
		equal(t, "asked when all is known", f.dates.asks(), "")
	})
}

// If all versions have dates, the registry is not asked.
func TestAllDated(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.dates.give = map[string]time.Time{"1.0.0": ago(time.Hour)}
		f.list(t, "1.0.0")
		firstSeenOf(t, f.FirstSeen, vpc)
		time.Sleep(48 * time.Hour)
		firstSeenOf(t, f.FirstSeen, vpc)
		equal(t, "asked", f.dates.asks(), "1.0.0")
	})
}

// Impossible dates do not make a version old enough, and do not affect other versions.
func TestHostileDates(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		time.Sleep(time.Hour)
		last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -24*3600+60)) // in UTC the year has five digits
		f.dates.give = map[string]time.Time{
			"1.0.0": last, "1.1.0": time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), "1.2.0": time.Unix(0, 0), "1.3.0": {},
			"1.4.0": time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), "1.5.0": time.Now().Add(time.Minute),
			"1.6.0": ago(30 * time.Hour), "": ago(time.Hour), "../..": ago(time.Hour),
		}
		f.list(t, "1.0.0 1.1.0 1.2.0 1.3.0 1.4.0 1.5.0 1.6.0")
		for range 2 {
			s := firstSeenOf(t, f.FirstSeen, vpc)
			equal(t, "since", since(s, "1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0"), "0.0 untimed untimed untimed untimed 0.0 30.0")
			equal(t, "versions", len(s.Versions), 7)
			f.restart()
		}
		equal(t, "failed", f.failures(), 0)
		time.Sleep(24 * time.Hour)
		equal(t, "a day later", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "1.1.0", "1.5.0"), "24.0 untimed 24.0")
	})
}

// Concurrent requests wait for one request to the registry.
func TestDatesOnce(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.dates.give, f.dates.takes = map[string]time.Time{"1.0.0": ago(100 * time.Hour)}, time.Second
		f.list(t, "1.0.0")
		shouted := vpc
		shouted.Name = "VPC"
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				m := vpc
				if i%2 == 0 {
					m = shouted
				}
				equal(t, "since", since(firstSeenOf(t, f.FirstSeen, m), "1.0.0"), "100.0")
			})
		}
		group.Wait()
		equal(t, "asked", f.dates.asks(), "1.0.0")
	})
}

// A slow registry delays a client for at most two seconds. Its dates count when they arrive.
func TestSlowDates(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.dates.give, f.dates.takes = map[string]time.Time{"1.0.0": ago(100 * time.Hour)}, 5*time.Second
		f.list(t, "1.0.0")
		began := time.Now()
		equal(t, "slow", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0"), "untimed")
		equal(t, "waited", time.Since(began), 2*time.Second)
		time.Sleep(4 * time.Second)
		equal(t, "later", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0"), "100.0")
		equal(t, "asked", f.dates.asks(), "1.0.0")
	})
}

// A registry that does not answer fails after a timeout, is observed once, and is asked again a minute later.
func TestDatesFail(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.dates.takes = time.Hour
		f.list(t, "1.0.0 2.0.0")
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() { firstSeenOf(t, f.FirstSeen, vpc) })
		}
		group.Wait()
		time.Sleep(10 * time.Second)
		f.dates.set(nil, modproxy.ErrUnavailable)
		for range 49 {
			began := time.Now()
			firstSeenOf(t, f.FirstSeen, vpc)
			equal(t, "waited", time.Since(began), 0)
			time.Sleep(time.Second)
		}
		equal(t, "failed", f.failures(), 1)
		equal(t, "asked", f.dates.asks(), "2.0.0 1.0.0")
		time.Sleep(12 * time.Second)
		f.dates.set(map[string]time.Time{"2.0.0": ago(50 * time.Hour)}, modproxy.ErrUnavailable)
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0"), "untimed 50.0")
		equal(t, "asked", f.dates.asks(), "2.0.0 1.0.0")
		time.Sleep(time.Minute)
		f.dates.set(map[string]time.Time{"1.0.0": ago(60 * time.Hour)}, nil)
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0"), "60.0 50.0")
		equal(t, "asked", f.dates.asks(), "1.0.0")
	})
}

// After a clock was ahead, the registry is still asked.
func TestClockAhead(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		text := `{"met": "2026-03-14T15:00:00Z", "dated": "2036-01-01T00:00:00Z", "versions": {"1.0.0": {}, "2.0.0": {"seen": "2036-01-01T00:00:00Z"}}}`
		if _, err := f.storage.Records().Put(t.Context(), store.Record{Ref: refOf(vpc), Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		f.dates.give = map[string]time.Time{"1.0.0": ago(time.Hour), "2.0.0": ago(2 * time.Hour)}
		firstSeenOf(t, f.FirstSeen, vpc)
		synctest.Wait()
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0"), "1.0 2.0")
	})
}

// A client that disconnects ends only its own request.
func TestDatesOfOneThatLeaves(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.dates.give, f.dates.takes = map[string]time.Time{"1.0.0": ago(100 * time.Hour)}, time.Second
		f.list(t, "1.0.0")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		if _, err := f.FirstSeen.Of(ctx, vpc); !errors.Is(err, modproxy.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("the one that left: %v", err)
		}
		equal(t, "another one", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0"), "100.0")
		equal(t, "asked", f.dates.asks(), "1.0.0")
		equal(t, "failed", f.failures(), 0)
	})
}
