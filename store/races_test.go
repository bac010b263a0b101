package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

// needingHook calls a function before it returns the records that need a blob.
type needingHook struct {
	store.Records
	before func()
}

func (x needingHook) Needing(ctx context.Context, d modproxy.Digest) ([]store.Record, error) {
	x.before()
	return x.Records.Needing(ctx, d)
}

// A blob that is found missing, and that another process stores again at that moment, stays.
func TestLostBlobIsKeptAgainElsewhere(t *testing.T) {
	a, b := newFixture(t), newFixture(t)
	b.storage = a.storage
	b.restart(t)
	a.mustGet(t, "100.1")
	data, d := dataOf("100.1")
	a.storage.Replace(d, nil)
	a.change(t, func(s *store.Config) {
		s.Records = needingHook{s.Records, func() {
			if err := b.put(t.Context(), "100.1"); err != nil {
				t.Error(err)
			}
		}}
	})
	if r, err := a.Open(t.Context(), d, int64(len(data))); err == nil {
		r.Close()
	}
	equal(t, "there", b.there(t), "100.1")
	equal(t, "reported", a.count(store.BlobDamaged), 0)
}

// A blob that its pinned record no longer needs is evicted like others.
func TestPinnedRecordNeedsAnotherBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.change(t, func(s *store.Config) { s.Pins = pins{"it": true} })
		first, d := dataOf("600.1")
		f.keep(t, first, d)
		f.mustGet(t, "400.1")
		time.Sleep(time.Second)
		f.mustGet(t, "400.2") // finds that the first blob is pinned
		second, e := dataOf("300.1")
		f.keep(t, second, e) // evicts 400.2
		f.mustGet(t, "700.1")
		equal(t, "there", f.there(t), "700.1 it")
		f.settled(t, 1000)
	})
}

// removing is a keeper that removes a blob while its records are being rebuilt.
type removing struct {
	keeper
	blobs store.Blobs
}

func (k removing) Rebuild(context.Context) (store.Rebuilder, error) {
	return func(ctx context.Context, d modproxy.Digest, size int64, blob io.Reader) ([]store.Record, error) {
		list, err := k.keeper.rebuild(ctx, d, size, blob)
		_, _ = k.blobs.Remove(ctx, store.Evict, d)
		return list, err
	}, nil
}

// Removing a blob while its records are being rebuilt ends neither a rebuild nor a repair.
func TestBlobIsRemovedWhileItsRecordsAreMade(t *testing.T) {
	for name, run := range map[string]func(s *store.Store) (store.Verified, error){
		"rebuild": func(s *store.Store) (store.Verified, error) { return s.Rebuild(t.Context(), store.Check{}) },
		"verify": func(s *store.Store) (store.Verified, error) {
			return s.Verify(t.Context(), store.Check{Data: true, Repair: true})
		},
	} {
		w := newWorld(t)
		data, d := storetest.Bytes(1000, 1)
		w.keeper["1"], _ = sumOf(bytes.NewReader(data))
		w.put(d, data, store.Record{Ref: store.Ref{Kind: "list", Key: "a"}})
		s := w.store()
		s.Kinds = map[store.Kind]store.Codec{packages: removing{w.keeper, s.Blobs}}
		if out, err := run(s); err != nil || out.Damage != 0 || out.Kept.Blobs != 0 {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}

// A kind without a Codec is known, but its records are not interpreted.
func TestKindsWithoutKeeper(t *testing.T) {
	w := newWorld(t)
	d := w.keep("1", 1)
	s := w.store()
	s.Kinds = map[store.Kind]store.Codec{packages: nil, "lists": nil}
	out, err := s.Rebuild(t.Context(), store.Check{})
	if err != nil || out.Records != 0 || out.Kept.Blobs != 1 {
		t.Errorf("Rebuild: %+v, %v", out, err)
	}
	for _, c := range []store.Check{{}, {Data: true}, {Data: true, Repair: true}} {
		if out, err := s.Verify(t.Context(), c); err != nil || out.Records != 1 || out.Damage != 0 || out.Kept.Blobs != 1 {
			t.Errorf("Verify %+v: %+v, %v", c, out, err)
		}
	}
	w.Replace(d, make([]byte, 1000))
	out, err = s.Verify(t.Context(), store.Check{Data: true, Repair: true})
	if err != nil || out.Damage != 1 || out.Repaired != 1 || len(w.Evidence()) != 1 {
		t.Errorf("damaged: %+v, %v", out, err)
	}
}

// afterRemoval calls a function after each removal.
type afterRemoval struct {
	blobs
	call func()
}

func (r afterRemoval) Remove(ctx context.Context, how store.Removal, list ...modproxy.Digest) ([]store.BlobInfo, error) {
	removed, err := r.blobs.Remove(ctx, how, list...)
	r.call()
	return removed, err
}

// A blob that is stored while a call quarantines its damaged content, or finds none, counts afterwards.
func TestStoredDuringRemoval(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprintf("damaged=%v", damaged), func(t *testing.T) {
			f := newBounded(t, 10_000)
			f.mustGet(t, "50.2")
			_, d := dataOf("100.1")
			removed, stored, ended := make(chan bool), make(chan bool), make(chan error)
			f.change(t, func(c *store.Config) {
				c.Blobs = afterRemoval{c.Blobs, func() { close(removed); <-stored }}
			})
			f.during = func(string) {
				if damaged {
					f.storage.Replace(d, []byte("damaged"))
				}
				go func() { ended <- f.SetAside(context.Background(), d) }()
				<-removed
			}
			f.mustGet(t, "100.1")
			close(stored)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if kept, reserved := f.Usage(); kept != 150 || reserved != 0 {
				t.Errorf("kept %d, reserved %d", kept, reserved)
			}
		})
	}
}
