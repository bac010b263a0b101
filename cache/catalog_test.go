package cache_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/test/rig"
)

func TestCatalogFreshThenStale(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		equal(t, "cold", f.said(t, vpc), "1")
		equal(t, "warm", f.said(t, vpc), "1 hit")
		time.Sleep(5*time.Minute - 1)
		f.next.change(func(s *saying) { s.number, s.delay = 2, 2*time.Second })
		equal(t, "still fresh", f.said(t, vpc), "1 hit")
		equal(t, "asked", f.next.asked(), 1)
		time.Sleep(time.Nanosecond)
		for range 100 {
			equal(t, "stale while it is asked for", f.said(t, vpc), "1 hit stale")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		equal(t, "refreshed", f.said(t, vpc), "2 hit")
		equal(t, "asked", f.next.asked(), 2)
		equal(t, "stale served", f.events.count(cache.StaleServed), 100)
	})
}

func TestCatalogWhileNextIsDown(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.said(t, vpc)
		f.next.change(func(s *saying) { s.err = errDown })
		for range 719 {
			time.Sleep(time.Hour)
			equal(t, "down", f.said(t, vpc), "1 hit stale")
		}
		equal(t, "asked, now and then", f.next.asked(), 720)
		for range 100 {
			equal(t, "down", f.said(t, vpc), "1 hit stale")
		}
		equal(t, "asked, and not again at once", f.next.asked(), 720)
		time.Sleep(2 * time.Hour)
		if _, _, _, err := f.ask(f.Catalog, t.Context(), vpc); !errors.Is(err, errDown) {
			t.Errorf("after MaxStale: %v", err)
		}
		f.next.change(func(s *saying) { s.err = nil })
		equal(t, "up again", f.said(t, vpc), "1")
	})
}

// A document that Next does not have is not requested again for a while. An unavailable or denied one does not count as missing.
func TestCatalogMissing(t *testing.T) {
	for _, c := range []struct {
		err       func() error // in the time of the test
		questions int
	}{
		{func() error { return fmt.Errorf("%w: 404", modproxy.ErrNotFound) }, 1},
		{func() error { return fmt.Errorf("%w: 403", modproxy.ErrDenied) }, 10},
		{func() error { return errDown }, 10},
		{func() error { return &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errors.New("429")} }, 1},
	} {
		aboutEach(t, func(t *testing.T, f *described) {
			err := c.err()
			f.next.change(func(s *saying) { s.err = err })
			for range 10 {
				if _, _, _, got := f.ask(f.Catalog, t.Context(), vpc); !errors.Is(got, err) {
					t.Errorf("%v became %v", err, got)
				}
			}
			equal(t, err.Error(), f.next.asked(), c.questions)
			f.next.change(func(s *saying) { s.err = nil })
			time.Sleep(time.Hour)
			equal(t, "found", f.said(t, vpc), "1")
		})
	}
}

// What Next does not say any more is forgotten, in the store, too.
func TestCatalogGone(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.said(t, vpc)
		time.Sleep(6 * time.Minute)
		f.next.change(func(s *saying) { s.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		for i := range 4 {
			if got := f.said(t, vpc); !strings.HasSuffix(got, "not found: 404") {
				t.Errorf("%d: %s", i, got)
			}
			time.Sleep(time.Minute)
			if i == 2 {
				f.restart(t)
			}
		}
		equal(t, "records", f.records(t), 0)
	})
}

func TestCatalogAsksOnce(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.next.change(func(s *saying) { s.delay = time.Second })
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() { equal(t, "cold", f.said(t, vpc), "1") })
		}
		group.Wait()
		equal(t, "asked", f.next.asked(), 1)
	})
}

// A request to a registry continues when no client waits.
func TestCatalogQuestionOutlivesItsCallers(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.next.change(func(s *saying) { s.delay = 10 * time.Second })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var later *modproxy.RetryLater
		if _, _, _, err := f.ask(f.Catalog, ctx, vpc); !errors.As(err, &later) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller in a hurry: %v", err)
		}
		if _, _, _, err := f.ask(f.Catalog, t.Context(), vpc); !errors.As(err, &later) {
			t.Errorf("a patient caller: %v", err)
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		equal(t, "the next one", f.said(t, vpc), "1 hit")
		equal(t, "asked", f.next.asked(), 1)
	})
}

// One asker leaves room for the questions of others.
func TestCatalogSharesTurns(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.next.change(func(s *saying) { s.delay = 10 * time.Second })
		ctx := modproxy.WithClient(t.Context(), modproxy.Client{Name: "many"})
		var group sync.WaitGroup
		for i := range 1100 {
			m := vpc
			m.Name = fmt.Sprintf("m%d", i)
			group.Go(func() { f.ask(f.Catalog, ctx, m) })
		}
		synctest.Wait()
		if n := f.next.asked(); n != 512 {
			t.Errorf("%d questions of one asker are under way", n)
		}
		f.next.change(func(s *saying) { s.delay = time.Second })
		equal(t, "another asker", f.said(t, vpc), "1")
		group.Wait()
	})
}

// A stored answer is unchanged, also in another process. An answer that was not stored is requested again.
func TestCatalogRestart(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.next.change(func(s *saying) { s.text = "a <b> \u2028 \"text\"\n" })
		before, _, _, err := f.ask(f.Catalog, t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		f.restart(t)
		after, _, marks, err := f.ask(f.Catalog, t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		if f.kind == "" {
			equal(t, "asked", f.next.asked(), 2)
			return
		}
		equal(t, "asked", f.next.asked(), 1)
		equal(t, "marks", marks.Hit && !marks.Stale, true)
		marksOf := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Hit" }, cmp.Ignore())
		if diff := cmp.Diff(before, after, marksOf); diff != "" {
			t.Error(diff)
		}
		time.Sleep(5 * time.Minute)
		f.next.change(func(s *saying) { s.err = errDown })
		f.restart(t)
		equal(t, "aged", f.said(t, vpc), "1 hit stale")
	})
}

// Two processes over one store see within seconds what either was told.
func TestCatalogElsewhere(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		other := newCatalog(f.storage.Handle())
		other.Next = f.next
		defer closeCatalog(t, other)
		equal(t, "here", f.said(t, vpc), "1")
		if f.kind == "" {
			equal(t, "elsewhere", f.saidBy(t, other, vpc), "1")
			return
		}
		equal(t, "elsewhere", f.saidBy(t, other, vpc), "1 hit")
		time.Sleep(6 * time.Minute)
		f.next.change(func(s *saying) { s.number = 2 })
		equal(t, "refreshed elsewhere", f.saidBy(t, other, vpc), "2")
		equal(t, "here", f.said(t, vpc), "2 hit")
		equal(t, "asked", f.next.asked(), 2)
	})
}

// Offline nothing is requested, and stored answers do not expire.
func TestCatalogOffline(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.said(t, vpc)
		f.restart(t)
		f.Next = nil
		time.Sleep(10_000 * time.Hour)
		_, _, _, err := f.ask(f.Catalog, t.Context(), vpc)
		if f.kind != "" {
			equal(t, "kept", f.said(t, vpc), "1 hit")
		} else if !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("not kept: %v", err)
		}
		other := vpc
		other.Name = "other"
		if _, _, _, err := f.ask(f.Catalog, t.Context(), other); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("never requested: %v", err)
		}
		equal(t, "asked", f.next.asked(), 1)
	})
}

// What is the same answer is the same pointer, and costs nothing.
func TestCatalogSamePointer(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.said(t, vpc)
		ask := func() any {
			answer, _, _, err := f.ask(f.Catalog, t.Context(), vpc)
			if err != nil {
				t.Error(err)
			}
			return answer
		}
		fresh := ask()
		for range 10 {
			time.Sleep(4 * time.Second) // in which the store is looked at
			equal(t, "fresh", ask(), fresh)
		}
		if n := testing.AllocsPerRun(100, func() { ask() }); n > 0 {
			t.Errorf("%v allocations", n)
		}
		time.Sleep(5 * time.Minute)
		f.next.change(func(s *saying) { s.err = errDown })
		stale := ask()
		for range 10 {
			time.Sleep(time.Minute)
			equal(t, "stale", ask(), stale)
		}
		f.next.change(func(s *saying) { s.err = nil })
		time.Sleep(time.Minute)
		if renewed := ask(); renewed == stale || renewed == fresh {
			t.Error("another answer is the same pointer")
		}
	})
}

// While the store fails, what is in memory is served. What is damaged in it, or no answer, is asked for.
func TestCatalogStoreFails(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.storage.Fail(errors.New("no space"))
		equal(t, "cold", f.said(t, vpc), "1")
		equal(t, "warm", f.said(t, vpc), "1 hit")
		equal(t, "told", f.events.count(cache.StoreFailed) > 0, f.kind != "")
		f.storage.Fail(nil)
		if f.kind == "" {
			return
		}
		ref := store.Ref{Kind: f.kind, Key: "registry.example.com/acme/vpc/aws"}
		ref.Key += map[store.Kind]string{cache.DetailsKind: "/1.0.0", cache.TextKind: "/1.0.0/101"}[f.kind]
		for name, zipped := range map[string][]byte{
			"bomb": slices.Concat(bytes.Repeat(gzipped(strings.Repeat(" ", 1<<20)), 65), gzipped(`{"value":{}}`)), "nothing": gzipped(`null`),
			"no value": gzipped(`{"value":null}`), "no JSON": gzipped(`{`), "a list": gzipped(`{"value":[]}`),
		} {
			if name == "bomb" && f.kind != cache.DetailsKind && !rig.Long() {
				continue // one of them is enough: 64 MiB take seconds under the race detector
			}
			var value bytes.Buffer
			binary.Write(&value, binary.BigEndian, time.Now().UnixNano())
			value.Write(zipped)
			rec, _ := f.storage.Records().Get(t.Context(), ref) // there may be none
			rec.Ref, rec.Value = ref, value.Bytes()
			if _, err := f.storage.Records().Put(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			f.restart(t)
			equal(t, name, f.said(t, vpc), "1")
		}
	})
}

// gzipped is text by gzip. Several in a row are one text.
func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

// Stored documents have a bound, and documents of modules with stored packages stay longest. Searches fill neither the store nor the memory.
func TestCatalogHasABound(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		config := f.CatalogConfig
		config.MaxKept = 64 << 10 // details have 32 KiB of it, histories 16 KiB and texts 8 KiB; each document counts as more than 1 KiB
		c := cache.NewCatalog(config)
		t.Cleanup(func() { closeCatalog(t, c) })
		f.Catalog = c
		f.next.change(func(s *saying) { s.text = strings.Repeat("x", 60_000) })
		ref := store.Ref{Kind: cache.PackageKind, Key: "registry.example.com/acme/vpc/aws/1.0.0"}
		if _, err := f.storage.Records().Put(t.Context(), store.Record{Ref: ref}); err != nil {
			t.Fatal(err)
		}
		f.said(t, vpc)
		others := 100
		if rig.Long() {
			others = 200
		}
		for i := range others {
			m := vpc
			m.Name = fmt.Sprintf("m%d", i)
			time.Sleep(time.Second) // the others are newer
			f.said(t, m)
			synctest.Wait()
		}
		left := f.records(t)
		if f.kind == "" {
			equal(t, "records", left, 1) // the package
			asked := f.next.asked()
			f.said(t, vpc)
			equal(t, "forgotten", f.next.asked() > asked, f.name == "list")
			return
		}
		if left == 0 || left > 54 {
			t.Errorf("%d of %d are left", left, others+1)
		}
		equal(t, "told", f.events.count(cache.CatalogTrimmed) > 0, true)
		asked := f.next.asked()
		f.restart(t)
		equal(t, "with a package", f.said(t, vpc), "1 hit")
		equal(t, "asked", f.next.asked(), asked)
	})
}

// Close does not wait for requests, and stored answers are served after it.
func TestCatalogClose(t *testing.T) {
	aboutEach(t, func(t *testing.T, f *described) {
		f.said(t, vpc)
		f.next.change(func(s *saying) { s.delay = time.Minute })
		other := vpc
		other.Name = "other"
		f.said(t, other) // without an answer
		began := time.Now()
		if err := f.Close(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		equal(t, "kept", f.said(t, vpc), "1 hit")
		if _, _, _, err := f.ask(f.Catalog, t.Context(), other); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("not kept: %v", err)
		}
		equal(t, "asked", f.next.asked(), 2)
	})
}
