package cache_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

// What is known of blobs follows what is kept: nothing stays of one that is lost, and
// is not fetched again, nor of one that nobody needed.
func TestLostBlobsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 10_000)
		for i := range 40 {
			f.fetch(t, fmt.Sprintf("100.%d.0", i))
		}
		f.settled(t, 4000)
		equal(t, "known", f.Seats(), 40)
		for kept, err := range f.index.Packages(vpc) {
			if err := errors.Join(err, f.blobs.Remove(kept.Record.Digest)); err != nil {
				t.Fatal(err)
			}
		}
		f.next.change(func(n *next) { n.err = errDown })
		for i := range 40 {
			if _, err := read(f.Registry, fmt.Sprintf("100.%d.0", i)); err == nil {
				t.Fatal("it is read, and gone")
			}
		}
		synctest.Wait()
		f.settled(t, 0)
		equal(t, "known when all are lost", f.Seats(), 0)
		for l, err := range f.List(t.Context(), nil, vpc) {
			if err != nil || l.There || l.Evicted {
				t.Fatalf("%v %v", l, err)
			}
		}
		equal(t, "known when they were listed", f.Seats(), 0)

		f.orphan(t, 70)
		time.Sleep(time.Hour)
		if got, err := f.Tidy(t.Context(), cache.Tidy{}); err != nil || got.Orphans.Packages != 1 {
			t.Fatalf("%v %v", got, err)
		}
		equal(t, "known when orphans were removed", f.Seats(), 0)
	})
}

// What was evicted is known to be, as long as its mark is there, and so is what is
// there. A restart forgets what the marks say of blobs that are lost.
func TestEvictedBlobsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		for i := range 20 {
			f.fetch(t, fmt.Sprintf("100.%d.0", i))
			time.Sleep(time.Second)
		}
		f.settled(t, 1000)
		equal(t, "known", f.Seats(), 20)
		for kept, err := range f.index.Packages(vpc) {
			if err := f.blobs.Remove(kept.Record.Digest); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f.restart(t)
		f.Start()
		f.settled(t, 0)
		equal(t, "known after a restart", f.Seats(), 10)
	})
}

// Bytes that are lost and fetched beside readers are in the account once.
func TestSeatsBesideReaders(t *testing.T) {
	f := newFixture(t)
	f.uses = &cachetest.MemoryUses{}
	f.max, f.sized = 10_000, &sized{next: f.next}
	f.restart(t)
	f.fetch(t, "100.1.0")
	rec, err := f.index.Package(vpc, "100.1.0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 300 {
				f.fetchSize(t, "100.1.0")
			}
		}()
	}
	go func() {
		defer func() { done <- struct{}{} }()
		for range 300 {
			f.blobs.Remove(rec.Digest)
			time.Sleep(50 * time.Microsecond)
		}
	}()
	for range 5 {
		<-done
	}
	f.fetch(t, "100.1.0")
	if kept, reserved := f.Usage(); kept != 100 || reserved != 0 {
		t.Errorf("kept %d, reserved %d", kept, reserved)
	}
	equal(t, "known", f.Seats(), 1)
}
