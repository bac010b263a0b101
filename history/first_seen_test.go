package history_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/test/registrytest"
)

func TestRegistry(t *testing.T) {
	registrytest.TestRegistry(t, "registry.example.com", func(t testing.TB) modproxy.Registry {
		memory, err := registrytest.NewMemory("registry.example.com", registrytest.Modules())
		if err != nil {
			t.Fatal(err)
		}
		return &history.Registry{Next: memory, FirstSeen: newFixture().FirstSeen}
	})
}

// Versions that are listed when a module is first seen have no time. Versions listed later have one, and keep it.
func TestSight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		equal(t, "never seen", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0"), "?")
		f.list(t, "1.0.0 v1.1")
		equal(t, "listed", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "1.1.0", "2.0.0"), "untimed untimed ?")
		time.Sleep(time.Hour)
		f.list(t, "1.0.0 1.1.0 2.0.0")
		time.Sleep(time.Hour)
		f.list(t, "3.0.0 2.0.0") // the others have left the list
		time.Sleep(time.Hour)
		f.list(t, "1.0.0 1.1.0 2.0.0 3.0.0")
		for range 2 {
			s := firstSeenOf(t, f.FirstSeen, vpc)
			equal(t, "since", since(s, "1.0.0", "1.1.0", "2.0.0", "3.0.0", "4.0.0"), "untimed untimed 2.0 1.0 ?")
			equal(t, "module", time.Since(s.Module), 3*time.Hour)
			f.restart()
		}
	})
}

// Modules that differ only in case share a record. Builds of one version have their own first-seen times.
func TestSpellings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.list(t, "1.0.0")
		time.Sleep(time.Hour)
		shouted := vpc
		shouted.Namespace, shouted.System = "ACME", "Aws"
		f.next.list("1.0.0+a 2.0.0+a")
		if _, err := f.Versions(t.Context(), shouted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		f.list(t, "1.0.0+b 2.0.0+b 2.0.0")
		for _, m := range []modproxy.Address{vpc, shouted} {
			equal(t, m.String(), since(firstSeenOf(t, f.FirstSeen, m), "1.0.0", "1.0.0+b", "1.0.0+a", "2.0.0", "2.0.0+a", "2.0.0+c"), "untimed 0.0 1.0 0.0 1.0 ?")
		}
	})
}

// Records outlast a process. A process sees the records of another one within seconds.
func TestProcesses(t *testing.T) {
	storages(t, func(t *testing.T, open func() store.Records) {
		records := open()
		a, b := &next{listed: "1.0.0"}, &next{listed: "1.0.0 2.0.0"}
		first, second := newRegistry(a, records), newRegistry(b, records)
		for _, r := range []*history.Registry{first, second} {
			if _, err := r.Versions(t.Context(), vpc); err != nil {
				t.Fatal(err)
			}
		}
		s := firstSeenOf(t, second.FirstSeen, vpc)
		v, seen := s.Of("2.0.0")
		if old, _ := s.Of("1.0.0"); !seen || v.Seen.Before(s.Module) || !old.Seen.IsZero() {
			t.Errorf("%+v", s)
		}
		again := newRegistry(b, open())
		if _, err := again.Versions(t.Context(), vpc); err != nil {
			t.Fatal(err)
		}
		after := firstSeenOf(t, again.FirstSeen, vpc)
		if !after.Module.Equal(s.Module) || !maps.EqualFunc(after.Versions, s.Versions, sameDates) {
			t.Errorf("before %+v, and after a restart %+v", s, after)
		}
	})
}

func newRegistry(next modproxy.Registry, records store.Records) *history.Registry {
	return &history.Registry{Next: next, FirstSeen: history.NewFirstSeen(history.FirstSeenConfig{Records: records})}
}

func sameDates(a, b modproxy.VersionDates) bool {
	return a.Seen.Equal(b.Seen) && a.Published.Equal(b.Published)
}

// Many concurrent lists with different versions: each version is recorded, and once.
func TestSeenAtOnce(t *testing.T) {
	storages(t, func(t *testing.T, open func() store.Records) {
		records := open()
		var group sync.WaitGroup
		var mu sync.Mutex
		var failed []error
		for i := range 8 {
			table := history.NewFirstSeen(history.FirstSeenConfig{Records: records, Observe: func(_ modproxy.Address, err error) {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}})
			group.Go(func() {
				for j := range 3 {
					r := &history.Registry{Next: &next{listed: fmt.Sprintf("0.0.0 1.%d.%d", i, j)}, FirstSeen: table}
					if _, err := r.Versions(t.Context(), vpc); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		s := firstSeenOf(t, history.NewFirstSeen(history.FirstSeenConfig{Records: records}), vpc)
		if len(s.Versions) != 25 || len(failed) > 0 {
			t.Errorf("%d versions are recorded, %v: %s", len(s.Versions), failed, sorted(slices.Collect(maps.Keys(s.Versions))))
		}
	})
}

// If others change a record in the meantime, it is changed again. Their earlier first-seen time counts.
func TestConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.list(t, "1.0.0")
		time.Sleep(time.Hour)
		other := newRegistry(&next{listed: "1.0.0 2.0.0"}, f.storage.Records())
		c := &contested{Records: f.storage.Records(), times: 3, other: func() error {
			_, err := other.Versions(t.Context(), vpc)
			return err
		}}
		f.restartOver(c)
		time.Sleep(time.Minute)
		f.list(t, "1.0.0 2.0.0 3.0.0")
		equal(t, "failed", f.failures(), 0)
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0", "3.0.0"), "untimed 0.0 0.0")

		c.times, c.other = 1000, func() error { return store.ErrConflict }
		f.list(t, "1.0.0 2.0.0 3.0.0 4.0.0")
		equal(t, "changes all the time", f.failures(), 1)
		equal(t, "not seen", since(firstSeenOf(t, f.FirstSeen, vpc), "4.0.0"), "?")
	})
}

// A damaged record makes versions look first listed now, but not the module first seen now: that would make them old enough
// if first_contact is allow.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, f *fixture){
		"by the disk": func(t *testing.T, f *fixture) { f.storage.Damage(refOf(vpc)) },
		"in its text": func(t *testing.T, f *fixture) {
			rec, err := f.storage.Records().Get(t.Context(), refOf(vpc))
			if err != nil {
				t.Fatal(err)
			}
			rec.Value = []byte(`{"met": "yesterday"}`)
			if _, err := f.storage.Records().Put(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				f.list(t, "1.0.0")
				time.Sleep(time.Hour)
				damage(t, f)
				f.restart()
				equal(t, "damaged", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0"), "?")
				f.list(t, "1.0.0 2.0.0")
				time.Sleep(30 * time.Minute)
				s := firstSeenOf(t, f.FirstSeen, vpc)
				equal(t, "since", since(s, "1.0.0", "2.0.0"), "0.5 0.5")
				equal(t, "module", time.Since(s.Module), 30*time.Minute)
				equal(t, "failed", f.failures(), 0)
			})
		})
	}
}

// If recording fails, the list is returned, the error is observed, and the versions are recorded later.
func TestStorageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.list(t, "1.0.0")
		time.Sleep(time.Hour)
		f.storage.Fail(errDisk)
		f.list(t, "1.0.0 2.0.0")
		equal(t, "failed", f.failures(), 1)
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0"), "untimed ?")
		f.failures() // that dates cannot be recorded
		f.storage.Fail(nil)
		f.list(t, "1.0.0 2.0.0")
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "1.0.0", "2.0.0"), "untimed 0.0")
		f.restartOver(unreadable{f.storage.Records()})
		if _, err := f.FirstSeen.Of(t.Context(), vpc); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("records that cannot be read: %v", err)
		}
		synctest.Wait() // until the requests in the background have failed
		f.failures()
		f.list(t, "1.0.0")
		equal(t, "cannot be read", f.failures(), 1)
		f.next.list("")
		if _, err := f.Versions(t.Context(), vpc); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("the error of next: %v", err)
		}
		equal(t, "nothing to record", f.failures(), 0)
	})
}

// A first list that could not be recorded still counts as the first, with its own time. A version of the next list is new.
func TestFirstRecordingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.storage.Fail(errDisk)
		f.list(t, "1.0.0")
		time.Sleep(time.Hour)
		f.list(t, "1.0.0 2.0.0")
		equal(t, "failed", f.failures(), 2)
		f.storage.Fail(nil)
		time.Sleep(time.Hour)
		f.list(t, "1.0.0 2.0.0 3.0.0")
		equal(t, "failed", f.failures(), 0)
		time.Sleep(time.Hour)
		s := firstSeenOf(t, f.FirstSeen, vpc)
		equal(t, "since", since(s, "1.0.0", "2.0.0", "3.0.0"), "untimed 1.0 1.0")
		equal(t, "module", time.Since(s.Module), 3*time.Hour)
	})
}

type unreadable struct{ store.Records }

func (unreadable) Get(context.Context, store.Ref) (store.Record, error) {
	return store.Record{}, errDisk
}

// A list that was cached before first-seen times were recorded counts from its time, but never from a time in the future.
func TestSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		v, err := document("1.0.0 2.0.0")
		if err != nil {
			t.Fatal(err)
		}
		v.Time = time.Now().Add(-48 * time.Hour)
		f.FirstSeen.See(t.Context(), vpc, v)
		s := firstSeenOf(t, f.FirstSeen, vpc)
		equal(t, "since", since(s, "1.0.0"), "untimed")
		equal(t, "module", time.Since(s.Module), 48*time.Hour)
		if v, err = document("1.0.0 2.0.0 3.0.0"); err != nil {
			t.Fatal(err)
		}
		v.Time = time.Now().Add(-time.Hour)
		f.FirstSeen.See(t.Context(), vpc, v)
		if v, err = document("4.0.0"); err != nil {
			t.Fatal(err)
		}
		v.Time = time.Now().Add(time.Hour)
		f.FirstSeen.See(t.Context(), vpc, v)
		equal(t, "since", since(firstSeenOf(t, f.FirstSeen, vpc), "2.0.0", "3.0.0", "4.0.0"), "untimed 1.0 0.0")
	})
}

// Large records are correct, and do not fill the memory.
func TestManyVersions(t *testing.T) {
	f := newFixture()
	var versions []string
	for i := range 3000 {
		versions = append(versions, fmt.Sprintf("1.%d.0", i))
	}
	f.list(t, strings.Join(versions[:900], " "))
	f.list(t, strings.Join(versions, " "))
	s := firstSeenOf(t, f.FirstSeen, vpc)
	if v, seen := s.Of("1.2999.0"); len(s.Versions) != 3000 || !seen || v.Seen.IsZero() {
		t.Errorf("%d versions, %+v", len(s.Versions), v)
	}
}

// Versions that were first seen by a clock that was ahead count as seen when the clock was set right, and do not become
// younger later, in this process or another.
func TestSeenInTheFuture(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		text := `{"met": "2036-01-01T00:00:00Z", "versions": {"1.0.0": {}, "2.0.0": {"seen": "2036-01-01T00:00:00Z"}}}`
		if _, err := f.storage.Records().Put(t.Context(), store.Record{Ref: refOf(vpc), Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		f.list(t, "1.0.0 2.0.0 3.0.0")
		time.Sleep(10 * time.Hour)
		f.restart()
		s := firstSeenOf(t, f.FirstSeen, vpc)
		equal(t, "since", since(s, "2.0.0", "3.0.0"), "10.0 10.0")
		if age := time.Since(s.Module); age != 10*time.Hour {
			t.Errorf("the module was first seen %v ago", age)
		}
	})
}
