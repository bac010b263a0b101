package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

func TestEvictsWhatWasNotUsedForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		for _, key := range []string{"300.1", "300.2", "300.3", "300.1", "300.4"} {
			f.mustGet(t, key)
			time.Sleep(time.Second)
		}
		equal(t, "there", f.there(t), "300.1 300.3 300.4")
		f.settled(t, 900)
		if _, err := f.Records.Get(t.Context(), refOf("300.2")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its record: %v", err)
		}
		equal(t, "evicted", f.count(store.BlobEvicted), 1)
		f.mustGet(t, "300.2")
		equal(t, "there", f.there(t), "300.1 300.2 300.4")
		equal(t, "damaged", f.count(store.BlobDamaged), 0)
		f.mustGet(t, "900.0") // all other blobs are evicted
		equal(t, "there", f.there(t), "900.0")
		f.settled(t, 900)
		for _, e := range f.events {
			if len(e.Refs) != 1 || e.Bytes != 300 {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.mustGet(t, "1000.0")
		err := f.get(t.Context(), "1001.0")
		text := fmt.Sprint(err)
		if !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(text, "1001B") || !strings.Contains(text, "cache.max_size") {
			t.Errorf("%v", err)
		}
		equal(t, "there", f.there(t), "1000.0")
		f.settled(t, 1000)
	})
}

// A blob of Last is evicted when no other blob is left, at any time of its last use.
func TestLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.change(t, func(s *store.Config) {
			s.EvictLast = func(_ context.Context, ref store.Ref) bool { return ref == refOf("300.1") || ref == refOf("300.2") }
		})
		for _, key := range []string{"300.1", "300.2", "100.3", "100.4", "100.5", "100.6"} {
			f.mustGet(t, key)
			time.Sleep(time.Second)
		}
		f.mustGet(t, "300.7")
		equal(t, "there", f.there(t), "100.6 300.1 300.2 300.7")
		if got, err := f.Collect(t.Context(), store.Collection{MaxSize: 600, DryRun: true}); err != nil || got.Evicted.Bytes != 400 {
			t.Errorf("would be evicted: %+v, %v", got, err)
		}
		if _, err := f.Collect(t.Context(), store.Collection{MaxSize: 600}); err != nil {
			t.Fatal(err)
		}
		equal(t, "there", f.there(t), "300.1 300.2")
		f.mustGet(t, "600.8")
		equal(t, "there", f.there(t), "300.2 600.8")
		f.mustGet(t, "900.9")
		equal(t, "there", f.there(t), "900.9")
		f.settled(t, 900)
	})
}

// A blob that several records need counts once, and all these records are deleted with it.
func TestSharedBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		for _, key := range []string{"600.1+a", "600.1+b", "400.1"} {
			f.mustGet(t, key)
			time.Sleep(time.Second)
		}
		f.settled(t, 1000)
		f.mustGet(t, "400.2")
		equal(t, "there", f.there(t), "400.1 400.2")
		f.settled(t, 800)
		f.mustGet(t, "600.1+b", "600.1+a")
		equal(t, "there", f.there(t), "400.2 600.1+a 600.1+b")
		f.settled(t, 1000)
	})
}

// Any number of concurrent keeps stays within the bound together, while blobs are written and afterwards.
func TestConcurrentKeepsKeepTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.during = func(string) {
			var sum int64
			for blob := range f.Blobs.Blobs(t.Context()) {
				sum += blob.Size
			}
			if kept, reserved := f.Usage(); kept+reserved > 1000 || sum > 1000 || reserved == 0 {
				t.Errorf("kept %d (%d there), reserved %d", kept, sum, reserved)
			}
			time.Sleep(time.Second)
		}
		for i := range 20 {
			go f.tryGet(t, fmt.Sprintf("%d.%d", 100+i*40, i))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "read", f.reads, 20)
		if kept, reserved := f.Usage(); kept > 1000 || kept == 0 || reserved != 0 {
			t.Errorf("kept %d, reserved %d", kept, reserved)
		}
	})
}

// tryGet is like get, but accepts that the blob was evicted right after it was stored.
func (f *fixture) tryGet(t *testing.T, key string) {
	if err := f.get(t.Context(), key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", key, err)
	}
}

// Of two concurrent keeps of the same bytes, the second finds the blob of the first, and needs no room.
func TestSameBytesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.during = func(string) { time.Sleep(time.Second) }
		began := time.Now()
		go f.tryGet(t, "600.1+a")
		f.mustGet(t, "600.1+b")
		synctest.Wait()
		equal(t, "waited", time.Since(began), time.Second)
		equal(t, "there", f.there(t), "600.1+a 600.1+b")
		f.settled(t, 600)
	})
}

// A record that needs several blobs gets room for all of them at once, so that two records do not wait for each other.
func TestRoomForAllBlobsOfARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.during = func(string) { time.Sleep(time.Second) }
		ended := make(chan error)
		for i := range 2 {
			r := store.Record{Ref: refOf(fmt.Sprint(i))}
			var contents []store.Content
			for j := range 2 {
				key := fmt.Sprintf("400.%d%d", i, j)
				data, d := dataOf(key)
				r.Needs = append(r.Needs, d)
				contents = append(contents, store.Content{Digest: d, Size: 400, Reader: f.body(key, data)})
			}
			go func() {
				_, err := f.Keep(t.Context(), r, contents...)
				ended <- err
			}()
		}
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		f.settled(t, 800)
	})
}

// A keep that fails gives back its reservation, in every way of failing.
func TestReservationsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		for name, fail := range map[string]func(){
			"storage": func() { f.storage.Fail(errors.New("broken")) },
			"panic":   func() { panic("broken") },
		} {
			f.during = func(string) { fail() }
			func() {
				defer func() { _ = recover() }()
				if err := f.get(t.Context(), "900.0"); err == nil {
					t.Errorf("%s: it did not fail", name)
				}
			}()
			f.storage.Fail(nil)
			f.settled(t, 0)
			f.during = nil
			f.mustGet(t, "901.0")
			if _, err := f.Discard(t.Context(), refOf("901.0")); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestUsesSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		for _, key := range []string{"300.1", "300.2", "300.3", "300.1"} {
			f.mustGet(t, key)
			time.Sleep(time.Second)
		}
		f.restart(t)
		f.mustGet(t, "300.4")
		equal(t, "there", f.there(t), "300.1 300.3 300.4")
		f.change(t, func(s *store.Config) { s.MaxSize = 700 })
		f.Start()
		synctest.Wait()
		equal(t, "there under a lower bound", f.there(t), "300.1 300.4")
		f.mustGet(t, "300.3")
		equal(t, "damaged", f.count(store.BlobDamaged), 0)
	})
}

type blobs = store.Blobs // whose method has the same name

// touches counts how often uses are written.
type touches struct {
	blobs
	n int
}

func (b *touches) Touch(ctx context.Context, used map[modproxy.Digest]time.Time) error {
	b.n++
	return b.blobs.Touch(ctx, used)
}

// Uses are written from time to time, all at once, and not for every read.
func TestUsesAreWrittenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		count := &touches{}
		counted := func(s *store.Config) { count.blobs, s.Blobs = s.Blobs, count }
		f.change(t, counted)
		for i := range 1000 {
			f.mustGet(t, fmt.Sprintf("100.%d", i%10))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if count.n < 2 || count.n > 4 {
			t.Errorf("written %d times in %v", count.n, 1000*time.Second)
		}
		before := count.n
		f.change(t, counted)
		equal(t, "written at the end", count.n, before+1)
		f.change(t, counted)
		equal(t, "written when nothing was used", count.n, before+1)
	})
}

// On a disk that is full or temporarily read-only, storing fails and stored blobs are served.
func TestStorageIsFull(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		f := newFixture(t)
		f.mustGet(t, "300.1")
		f.storage.Fail(&fs.PathError{Op: "write", Path: "x", Err: errno})
		var full *modproxy.NoSpace
		if err := f.get(t.Context(), "300.2"); !errors.As(err, &full) || !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%v, want NoSpace", err)
		}
		f.mustGet(t, "300.1")
		f.storage.Fail(nil)
		f.mustGet(t, "300.2")
	}
}
