package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

// watched is records with something that happens, once each, in the middle.
type watched struct {
	store.Records
	read, put atomic.Pointer[func()] // before a package or document is answered, and before it is put
	list      error
}

func (w *watched) Get(ctx context.Context, ref store.Ref) (store.Record, error) {
	rec, err := w.Records.Get(ctx, ref)
	if f := w.read.Swap(nil); f != nil {
		(*f)()
	}
	return rec, err
}

func (w *watched) Put(ctx context.Context, r store.Record) (uint64, error) {
	if f := w.put.Swap(nil); f != nil {
		(*f)()
	}
	return w.Records.Put(ctx, r)
}

func (w *watched) List(ctx context.Context, kind store.Kind, prefix string) iter.Seq2[store.Record, error] {
	if w.list != nil {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, w.list) }
	}
	return w.Records.List(ctx, kind, prefix)
}

// watch is called in a bubble, in which nothing may be reading the records.
func (f *fixture) watch() *watched {
	synctest.Wait()
	w := &watched{Records: f.storage.Records()}
	f.Store.Records = w
	return w
}

// elsewhere returns another process over the same storage and ledger.
func (f *fixture) elsewhere(t *testing.T) *cache.Registry {
	other := newRegistry(f.storage.Handle(), f.ledger, f.next, 0)
	t.Cleanup(func() { mustClose(t, other) })
	return other
}

// A module that another process has found no longer counts as missing here.
func TestFoundElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other := f.elsewhere(t)
		absent := fmt.Errorf("%w: 404", modproxy.ErrNotFound)
		f.next.change(func(n *next) { n.err = absent })
		f.versions(t)
		f.location(t, "1.1.0")
		f.next.change(func(n *next) { n.err = nil })
		if _, err := other.Refresh(t.Context(), vpc); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		equal(t, "module", f.versions(t), "1.0.0 1.1.0 hit")
		equal(t, "version", f.location(t, "1.1.0"), "https://files.example.com/1.1.0")
	})
}

// A document that could not be kept gives way to one that another process has kept.
func TestRefreshedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other := f.elsewhere(t)
		f.storage.Fail(errors.New("no space"))
		f.versions(t)
		f.storage.Fail(nil)
		time.Sleep(5 * time.Second)
		equal(t, "none is kept", f.versions(t), "1.0.0 1.1.0 hit")
		f.next.change(func(n *next) { n.listed = "2.0.0" })
		if _, err := other.Refresh(t.Context(), vpc); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		equal(t, "one is kept", f.versions(t), "2.0.0 hit")
		equal(t, "asked", f.next.asked("versions"), 2)
	})
}

// A document that is being read while a newer one is kept does not come back.
func TestRefreshedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		f.restart(t)
		f.next.change(func(n *next) { n.listed = "2.0.0" })
		refresh := func() { f.refresh(t) }
		f.watch().read.Store(&refresh)
		f.versions(t)
		equal(t, "afterwards", f.versions(t), "2.0.0 hit")
	})
}

// While the storage does not answer, what is in memory is served, and its trouble is told
// now and then.
func TestStorageDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.versions(t)
		w := f.watch()
		w.Records = failing{w.Records}
		time.Sleep(5 * time.Second)
		for range 100 {
			equal(t, "fails", f.versions(t), "1.0.0 1.1.0 hit")
		}
		equal(t, "told", f.events.count(cache.StoreFailed), 1)

		time.Sleep(5 * time.Second)
		hang := func() { time.Sleep(time.Minute) }
		for range 4 {
			w.read.Store(&hang)
			go f.Versions(t.Context(), vpc)
			synctest.Wait()
		}
		asked := time.Now()
		equal(t, "hangs", f.versions(t), "1.0.0 1.1.0 hit")
		if took := time.Since(asked); took > 3*time.Second {
			t.Errorf("answered after %v", took)
		}
		time.Sleep(time.Minute)
	})
}

// failing is records that cannot be read.
type failing struct{ store.Records }

func (failing) Get(context.Context, store.Ref) (store.Record, error) {
	return store.Record{}, errors.New("input/output error")
}

// That the kept packages cannot be listed does not make upstream's answer unfit.
func TestPackagesCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.watch().list = errors.New("input/output error")
		equal(t, "listed upstream", f.versions(t), "1.0.0 1.1.0")
		equal(t, "told", f.events.count(cache.StoreFailed), 1)
		f.next.change(func(n *next) { n.err = fmt.Errorf("%w: 404", modproxy.ErrNotFound) })
		m := vpc
		m.Name = "other"
		if _, err := f.Versions(t.Context(), m); errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("whether packages are kept is not known, and it is %v", err)
		}
	})
}

// Another process removes what is being kept, before there is a record of it: then it is
// kept again.
func TestRemovedElsewhereWhileKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other := f.elsewhere(t)
		f.fetch(t, "1.0.0")
		f.next.change(func(n *next) { n.content, _ = storetest.Bytes(1000, 2) })
		f.accept(t, "1.0.0")
		f.Forget(vpc.At("1.0.0"))
		remove := func() {
			if _, err := other.Discard(t.Context(), vpc.At("1.0.0")); err != nil {
				t.Error(err)
			}
			f.evict(t)
		}
		f.watch().put.Store(&remove)
		if got := f.fetch(t, "1.0.0"); !bytes.Equal(got, f.next.content) {
			t.Errorf("%d bytes", len(got))
		}
	})
}

// A fetch that was under way when a version was forgotten brings what counted before: that
// it failed is not remembered.
func TestForgetWhileFetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.pack, n.delay = modproxy.ErrInvalid, time.Second })
		go read(f.Registry, "1.0.0")
		time.Sleep(1500 * time.Millisecond)
		f.Forget(vpc.At("1.0.0"))
		time.Sleep(time.Second)
		f.next.change(func(n *next) { n.pack = nil })
		f.fetch(t, "1.0.0")
	})
}

// So does a question that has read the record, or asked upstream, and not answered yet.
func TestForgetWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		before := f.fetch(t, "1.0.0")
		f.restart(t)
		after, _ := storetest.Bytes(1000, 2)
		f.next.change(func(n *next) { n.content = after })
		lookup := func() {
			go func() {
				time.Sleep(time.Second)
				f.accept(t, "1.0.0")
				f.Forget(vpc.At("1.0.0"))
			}()
			time.Sleep(2 * time.Second)
		}
		f.Store.Blobs = slowStat{f.Store.Blobs, &lookup}
		f.location(t, "1.0.0")
		if bytes.Equal(f.fetch(t, "1.0.0"), before) {
			t.Error("what counted before is served")
		}

		f.next.change(func(n *next) { n.err, n.delay = fmt.Errorf("%w: 404", modproxy.ErrNotFound), time.Second })
		go f.Location(t.Context(), vpc.At("2.0.0"))
		time.Sleep(time.Second / 2)
		f.Forget(vpc.At(""))
		time.Sleep(time.Second)
		f.next.change(func(n *next) { n.err, n.delay = nil, 0 })
		equal(t, "published", f.location(t, "2.0.0"), "https://files.example.com/2.0.0")
	})
}

type blobs = store.Blobs

// slowStat is blobs with something that happens when one is looked at first.
type slowStat struct {
	blobs
	told *func()
}

func (b slowStat) Stat(ctx context.Context, d modproxy.Digest) (store.BlobInfo, error) {
	if told := *b.told; told != nil {
		*b.told = nil
		told()
	}
	return b.blobs.Stat(ctx, d)
}
