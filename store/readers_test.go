package store_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

func (f *fixture) mustOpen(t *testing.T, key string) modproxy.Body {
	t.Helper()
	r, err := f.open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A blob that is being read stays. A blob that finds no room beside it is reported.
func TestReadersKeepTheirBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		r := f.mustOpen(t, "600.1")
		var full *modproxy.NoSpace
		if err := f.get(t.Context(), "600.2"); !errors.As(err, &full) || !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%v, want NoSpace", err)
		}
		f.mustGet(t, "400.1") // there is room for this one
		if data, err := io.ReadAll(r); len(data) != 600 || err != nil {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		r.Close()
		r.Close()
		f.mustGet(t, "600.2")
		equal(t, "there", f.there(t), "400.1 600.2")
		f.settled(t, 1000)
	})
}

// Readers of small blobs, which do not free enough room, come and go. A keep that waits for room fails as early as
// without them.
func TestReadersThatEndDoNotProlongTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		defer f.mustOpen(t, "600.1").Close()
		f.mustGet(t, "400.1")
		var end atomic.Bool
		var readers sync.WaitGroup
		defer readers.Wait()
		defer end.Store(true)
		readers.Go(func() {
			for !end.Load() {
				f.mustGet(t, "400.1")
				time.Sleep(time.Second)
			}
		})
		began := time.Now()
		var full *modproxy.NoSpace
		if err := f.get(t.Context(), "1000.1"); !errors.As(err, &full) {
			t.Errorf("%v, want NoSpace", err)
		}
		equal(t, "waited", time.Since(began), 10*time.Second)
	})
}

// The time spent waiting for writers does not count as time spent waiting for readers.
func TestReadersAreWaitedForAfterWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.during = func(key string) {
			if key == "400.1" {
				time.Sleep(time.Minute)
			}
		}
		r := f.mustOpen(t, "600.1")
		go f.tryGet(t, "400.1")
		time.Sleep(time.Second)
		time.AfterFunc(time.Minute, func() { r.Close() }) // a second after that one
		f.mustGet(t, "600.2")
		f.settled(t, 1000)
	})
}

// A wait for room ends with its context.
func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		defer f.mustOpen(t, "600.1").Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := f.get(ctx, "600.2"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		equal(t, "waited", time.Since(began), time.Second)
		f.settled(t, 600)
	})
}

// pins pins the listed keys.
type pins map[string]bool

func (p pins) Pinned(ref store.Ref) bool { return p[ref.Key] }

func TestPinnedIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.change(t, func(s *store.Config) { s.Pins = pins{"300.1": true} })
		for _, key := range []string{"300.1", "300.1+b", "200.1", "200.2", "200.3", "200.4", "200.5"} {
			f.mustGet(t, key)
			time.Sleep(time.Second)
		}
		equal(t, "there", f.there(t), "200.3 200.4 200.5 300.1 300.1+b")
		f.settled(t, 900)

		// Pins also hold after a restart, and when the bound is lowered.
		f.change(t, func(s *store.Config) { s.MaxSize = 400 })
		f.Start()
		synctest.Wait()
		equal(t, "there", f.there(t), "300.1 300.1+b")
		f.settled(t, 300)

		for range 2 { // readers of pinned blobs are not waited for either
			var full *modproxy.NoSpace
			asked := time.Now()
			if err := f.get(t.Context(), "200.6"); !errors.As(err, &full) {
				t.Errorf("nothing may go: %v", err)
			}
			equal(t, "waited", time.Since(asked), 0)
			f.restart(t)
			defer f.mustOpen(t, "300.1").Close()
		}
		if list, err := f.Discard(t.Context(), refOf("300.1")); len(list) != 1 || len(list[0].Shared) != 1 || err != nil {
			t.Errorf("%+v, %v", list, err)
		}
		f.restart(t)
		f.mustGet(t, "200.6")
		equal(t, "there after it was removed by hand", f.there(t), "200.6")
	})
}

// A blob that a record of an unknown kind needs is not evicted.
func TestUnknownKindsAreNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.mustGet(t, "600.1")
		f.change(t, func(s *store.Config) { s.Kinds = map[store.Kind]store.Codec{"other": nil} })
		var full *modproxy.NoSpace
		if err := f.get(t.Context(), "600.2"); !errors.As(err, &full) {
			t.Errorf("%v, want NoSpace", err)
		}
		equal(t, "there", f.there(t), "600.1")
	})
}

// Quarantined blobs count, and are not evicted.
func TestWhatIsSetAsideCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.mustGet(t, "400.0")
		_, d := dataOf("400.0")
		if err := f.SetAside(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"300.1", "300.2", "300.3"} {
			f.mustGet(t, key)
			time.Sleep(time.Second)
		}
		equal(t, "there", f.there(t), "300.2 300.3")
		f.restart(t)
		var full *modproxy.NoSpace
		if err := f.get(t.Context(), "700.4"); !errors.As(err, &full) {
			t.Errorf("no room: %v", err)
		}
		if _, err := f.storage.Purge(t.Context(), 0); err != nil { // by another process
			t.Fatal(err)
		}
		f.mustGet(t, "700.4")
	})
}

// A blob that is quarantined during a wait for room counts at once.
func TestSetAsideWhileRoomIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		first, second := f.mustOpen(t, "600.1"), f.mustOpen(t, "300.2")
		var group sync.WaitGroup
		get := func(key string) {
			group.Go(func() { _ = f.get(t.Context(), key) })
			time.Sleep(time.Second)
		}
		get("400.3") // waits for readers
		_, d := dataOf("600.1")
		f.storage.Replace(d, make([]byte, 600))
		get("600.1") // finds the blob damaged
		second.Close()
		synctest.Wait()
		kept, reserved := f.Usage()
		aside, err := f.storage.Quarantined(t.Context(), 0)
		if all := kept + reserved + aside.Bytes; aside.Bytes != 600 || all > 1000 || err != nil {
			t.Errorf("%d bytes: %d kept, %d reserved, %d set aside", all, kept, reserved, aside.Bytes)
		}
		first.Close()
		group.Wait()
	})
}
