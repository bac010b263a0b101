package cache_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/store"
)

var errDown = fmt.Errorf("%w: down", modproxy.ErrUnavailable)

func TestFreshThenStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		equal(t, "cold", f.versions(t), "1.0.0 1.1.0")
		equal(t, "warm", f.versions(t), "1.0.0 1.1.0 hit")
		time.Sleep(5*time.Minute - 1)
		f.next.change(func(n *next) { n.listed = "1.0.0 1.1.0 1.2.0"; n.delay = 2 * time.Second })
		equal(t, "still fresh", f.versions(t), "1.0.0 1.1.0 hit")
		equal(t, "asked", f.next.asked("versions"), 1)
		time.Sleep(time.Nanosecond)
		for range 100 {
			equal(t, "stale while it is asked for", f.versions(t), "1.0.0 1.1.0 hit stale")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		equal(t, "refreshed", f.versions(t), "1.0.0 1.1.0 1.2.0 hit")
		equal(t, "asked", f.next.asked("versions"), 2)
		equal(t, "stale served", f.events.count(cache.StaleServed), 100)
	})
}

func TestStaleWhileUpstreamIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		f.next.change(func(n *next) { n.err = errDown })
		for range 1000 {
			time.Sleep(time.Hour)
			if got := f.versions(t); got != "1.0.0 1.1.0 hit stale" {
				break
			}
		}
		equal(t, "within MaxStale", f.next.asked("versions"), 722) // the last one was too late
		if _, err := f.Versions(t.Context(), vpc); !errors.Is(err, errDown) {
			t.Errorf("after MaxStale: %v", err)
		}
		f.next.change(func(n *next) { n.err = nil })
		equal(t, "up again", f.versions(t), "1.0.0 1.1.0")
	})
}

func TestRefreshThatFailsIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		time.Sleep(6 * time.Minute)
		f.next.change(func(n *next) { n.err = errDown })
		for range 100 {
			equal(t, "stale", f.versions(t), "1.0.0 1.1.0 hit stale")
			synctest.Wait()
		}
		equal(t, "asked", f.next.asked("versions"), 2)
		f.next.change(func(n *next) { n.err = nil })
		time.Sleep(6 * time.Second)
		f.versions(t)
		synctest.Wait()
		equal(t, "up again", f.versions(t), "1.0.0 1.1.0 hit")
	})
}

func TestOneMissOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.delay = time.Second
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() { equal(t, "cold", f.versions(t), "1.0.0 1.1.0") })
		}
		group.Wait()
		equal(t, "asked", f.next.asked("versions"), 1)
	})
}

func TestQuestionOutlivesItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.delay = 10 * time.Second
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var later *modproxy.RetryLater
		_, err := f.Versions(ctx, vpc)
		if !errors.As(err, &later) || !errors.Is(err, context.DeadlineExceeded) || time.Since(started) != time.Second {
			t.Errorf("a caller in a hurry: %v after %v", err, time.Since(started))
		}
		_, err = f.Versions(t.Context(), vpc)
		if !errors.As(err, &later) || !errors.Is(err, modproxy.ErrUnavailable) || time.Since(started) != 4*time.Second {
			t.Fatalf("a patient caller: %v after %v", err, time.Since(started))
		}
		equal(t, "After", time.Until(later.After), time.Second)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		equal(t, "the next one", f.versions(t), "1.0.0 1.1.0 hit")
		equal(t, "asked", f.next.asked("versions"), 1)
	})
}

func TestOnlyNotFoundIsRemembered(t *testing.T) {
	for err, questions := range map[error]int{
		fmt.Errorf("%w: 404", modproxy.ErrNotFound):     1,
		fmt.Errorf("%w: 401", modproxy.ErrUnauthorized): 10,
		fmt.Errorf("%w: 403", modproxy.ErrDenied):       10,
		fmt.Errorf("%w: 500", modproxy.ErrUnavailable):  10,
		fmt.Errorf("%w: html", modproxy.ErrInvalid):     10,
		errors.New("of no kind"):                        10,
		context.Canceled:                                10,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.next.err = err
			for range 10 {
				_, got := f.Versions(t.Context(), vpc)
				_, gotLocation := f.Location(t.Context(), vpc.At("1.0.0"))
				for _, got := range []error{got, gotLocation} {
					if errors.Is(got, context.Canceled) || !errors.Is(got, err) && !errors.Is(got, modproxy.ErrUnavailable) {
						t.Errorf("%v became %v", err, got)
					}
				}
			}
			equal(t, err.Error(), f.next.asked("versions"), questions)
			equal(t, err.Error(), f.next.asked("location"), questions)
			f.next.change(func(n *next) { n.err = nil })
			time.Sleep(30 * time.Second)
			equal(t, "found", f.versions(t), "1.0.0 1.1.0")
		})
	}
}

func TestModuleThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		time.Sleep(6 * time.Minute)
		f.next.change(func(n *next) { n.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		// It does not come back when the memory of its absence ends, nor by a restart.
		for i := range 4 {
			if got := f.versions(t); !strings.HasSuffix(got, "not found: 404") {
				t.Errorf("%d: %s", i, got)
			}
			time.Sleep(time.Minute)
			if i == 2 {
				f.restart(t)
			}
		}
	})
}

func TestRetryLaterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		refuse := func(n *next) {
			n.err = &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errors.New("429")}
		}
		f.next.change(refuse)
		var later *modproxy.RetryLater
		for range 10 {
			if _, err := f.Versions(t.Context(), vpc); !errors.As(err, &later) || time.Until(later.After) != time.Hour {
				t.Errorf("cold: %v", err)
			}
			if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.As(err, &later) {
				t.Errorf("location: %v", err)
			}
			if _, err := read(f.Registry, "1.0.0"); !errors.As(err, &later) {
				t.Errorf("package: %v", err)
			}
		}
		equal(t, "asked", f.next.asked("versions")+f.next.asked("location")+f.next.asked("package"), 1)
		time.Sleep(time.Hour)
		f.next.change(func(n *next) { n.err = nil })
		equal(t, "after After", f.versions(t), "1.0.0 1.1.0")

		time.Sleep(6 * time.Minute)
		f.next.change(refuse)
		for range 50 {
			equal(t, "stale", f.versions(t), "1.0.0 1.1.0 hit stale")
			time.Sleep(time.Minute)
		}
		equal(t, "asked", f.next.asked("versions"), 3)
	})
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		v, err := f.Versions(t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		f.next.change(func(n *next) { n.err = errDown })
		f.restart(t)
		again, err := f.Versions(t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		if again.ETag != v.ETag || !again.Time.Equal(v.Time) || string(again.Document) != string(v.Document) || !again.Hit || again.Stale {
			t.Errorf("after a restart: %+v, before: %+v", again, v)
		}
		time.Sleep(6 * time.Minute)
		f.restart(t)
		equal(t, "aged", f.versions(t), "1.0.0 1.1.0 hit stale")
		synctest.Wait()
		equal(t, "asked", f.next.asked("versions"), 2)
	})
}

// Offline, a version is listed if its package is available, with the entries of the registry of any age.
func TestVersionsOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		given := time.Now()
		f.putDocument(t, given, []byte(`{"modules":[{"source":"https://git.example.com/vpc","versions":[{"version":"2.0.0"},{"version":"v1.0.0","root":{}},{"version":"1.1.0"}]}]}`))
		f.offline(t)
		var none *modproxy.NotCached
		if _, err := f.Versions(t.Context(), vpc); !errors.As(err, &none) || none.Ref != vpc.At("") {
			t.Errorf("listed, and none is kept: %v", err)
		}
		f.restart(t)
		for _, version := range []string{"0.9.0", "1.0.0", "1.1.0"} {
			f.next.change(func(n *next) { n.content = []byte("content of " + version) })
			f.fetch(t, version)
		}
		asked := f.next.asked("versions")
		f.offline(t)
		time.Sleep(10_000 * time.Hour)
		v, err := f.Versions(t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		if !v.Time.Equal(time.Now()) { // when the registry has said so of 0.9.0 is not known
			t.Errorf("it is of %v", v.Time)
		}
		want := `{"modules":[{"source":"https://git.example.com/vpc","versions":[{"version":"v1.0.0","root":{}},{"version":"1.1.0"},{"version":"0.9.0"}]}]}`
		equal(t, "offline", string(v.Document), want)
		equal(t, "marks", f.versions(t), "1.0.0 1.1.0 0.9.0 hit stale")
		time.Sleep(4 * time.Second)
		mustClose(t, f.Registry)
		equal(t, "while modproxy ends", f.versions(t), "1.0.0 1.1.0 0.9.0 hit stale")
		f.offline(t)

		// What is not there any more, or is not what the ledger says, is not listed.
		p, err := f.Package(t.Context(), vpc.At("1.1.0"))
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		f.storage.Replace(p.Digest, []byte("cut"))
		f.next.change(func(n *next) { n.content = []byte("another") })
		f.accept(t, "0.9.0")
		time.Sleep(4 * time.Second)
		equal(t, "offline", f.versions(t), "1.0.0 hit stale")
		if v, err := f.Versions(t.Context(), vpc); err != nil || !v.Time.Equal(given) {
			t.Errorf("%v, %v; it was given %v", v, err, given)
		}
		if _, err := f.Discard(t.Context(), vpc.At("1.0.0")); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Versions(t.Context(), vpc); !errors.As(err, &none) {
			t.Errorf("removed, and listed at once: %v", err)
		}
		var gone *modproxy.NotCached
		if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.As(err, &gone) || !gone.Lost || gone.Version != "1.0.0" {
			t.Errorf("removed: %v", err)
		}
		if _, err := read(f.Registry, "3.0.0"); !errors.As(err, &gone) || gone.Lost || gone.Version != "3.0.0" {
			t.Errorf("never kept: %v", err)
		}
		equal(t, "asked", f.next.asked("versions"), asked)
	})
}

// The store is not trusted: a stored value that is small, and large when it is uncompressed, is not served as a document.
func TestDocumentThatIsABomb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		spaces := bytes.Repeat(gzipped(strings.Repeat(" ", 1<<20)), 65)
		f.putZipped(t, time.Now(), append(spaces, gzipped(`{"modules":[{"versions":[{"version":"3.0.0"}]}]}`)...))
		equal(t, "asked for instead", f.versions(t), "1.0.0 1.1.0")
		equal(t, "told", f.events.count(cache.StoreFailed), 1)
	})
}

// An answer from the future is what is seen after the clock was set back.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		f.putDocument(t, time.Now().AddDate(10, 0, 0), []byte(`{"modules":[{"versions":[{"version":"3.0.0"}]}]}`))
		f.restart(t)
		equal(t, "from the future", f.versions(t), "1.0.0 1.1.0")
		equal(t, "asked", f.next.asked("versions"), 2)
		equal(t, "refreshed", f.versions(t), "1.0.0 1.1.0 hit")
	})
}

func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.storage.Fail(errors.New("no space"))
		equal(t, "cold", f.versions(t), "1.0.0 1.1.0")
		equal(t, "warm", f.versions(t), "1.0.0 1.1.0 hit")
		if f.events.count(cache.StoreFailed) == 0 {
			t.Error("nobody was told")
		}
		if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("location: %v", err)
		}
		equal(t, "asked", f.next.asked("versions"), 1)
	})
}

// putDocument puts a record of a versions document in the place of the one that is kept.
func (f *fixture) putDocument(t *testing.T, asked time.Time, document []byte) {
	t.Helper()
	f.putZipped(t, asked, gzipped(string(document)))
}

// putZipped is putDocument for a document in gzip form.
func (f *fixture) putZipped(t *testing.T, asked time.Time, zipped []byte) {
	t.Helper()
	rec, _ := f.document(t, vpc) // there may be none
	rec.Ref = store.Ref{Kind: cache.VersionsKind, Key: "registry.example.com/acme/vpc/aws"}
	rec.Value = binary.BigEndian.AppendUint64(nil, uint64(asked.UnixNano()))
	rec.Value = fmt.Appendf(rec.Value, `{"time":%q}`+"\n", asked.Format(time.RFC3339Nano))
	rec.Value = append(rec.Value, zipped...)
	if _, err := f.storage.Records().Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
}
