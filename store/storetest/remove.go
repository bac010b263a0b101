package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

func testRemove(t *testing.T, open func(t *testing.T, n int) []Handle) {
	for how, name := range map[store.Removal]string{store.Evict: "evict", store.Collect: "collect", store.ToQuarantine: "quarantine"} {
		t.Run(name, func(t *testing.T) { testRemoval(t, open(t, 2), how) })
	}
	t.Run("lost", func(t *testing.T) {
		handles := open(t, 2)
		a, b := handles[0], handles[1]
		d, e := a.putBlob(t, 1000, 1), a.putBlob(t, 2000, 2)
		one := store.Ref{Kind: "a", Key: "one"}
		r := a.put(t, store.Record{Ref: one, Needs: []modproxy.Digest{d, e}})
		a.Lose(t, d)
		b.lacksBlob(t, d)
		b.holds(t, r)
		_, err := b.Records.Put(t.Context(), r)
		wantError(t, "Put of a record whose blob is lost", err, fs.ErrNotExist)
		got, err := b.Blobs.Remove(t.Context(), store.Evict, d)
		if len(got) != 0 || err != nil {
			t.Errorf("Remove = %v, %v", got, err)
		}
		a.lacks(t, one)
		wantNeeding(t, a, e)
	})
	t.Run("aside", func(t *testing.T) {
		a := open(t, 1)[0]
		before, err := a.Quarantine.Quarantined(t.Context(), 0)
		must(t, err)
		for range 2 { // the same blob twice
			_, err := a.Blobs.Remove(t.Context(), store.ToQuarantine, a.putBlob(t, 1000, 1))
			must(t, err)
		}
		want := store.Amount{Blobs: before.Blobs + 2, Bytes: before.Bytes + 2000}
		if got, err := a.Quarantine.Quarantined(t.Context(), 0); err != nil || got != want {
			t.Errorf("Aside = %v, %v, want %v", got, err, want)
		}
		if got, err := a.Quarantine.Purge(t.Context(), time.Hour); err != nil || got.Blobs > before.Blobs {
			t.Errorf("Purge of what is older than an hour = %v, %v", got, err)
		}
		if got, err := a.Quarantine.Purge(t.Context(), 0); err != nil || got != want {
			t.Errorf("Purge = %v, %v, want %v", got, err, want)
		}
		if got, err := a.Quarantine.Quarantined(t.Context(), 0); err != nil || got != (store.Amount{}) {
			t.Errorf("Aside after Purge = %v, %v", got, err)
		}
	})
}

func testRemoval(t *testing.T, handles []Handle, how store.Removal) {
	ctx := t.Context()
	a, b := handles[0], handles[1]
	remove := func(want int, list ...modproxy.Digest) {
		t.Helper()
		got, err := b.Blobs.Remove(ctx, how, list...)
		must(t, err)
		if len(got) != want {
			t.Errorf("Remove = %v, want %d", got, want)
		}
		for _, info := range got {
			if info.Size < 1000 {
				t.Errorf("Remove = %v", got)
			}
		}
	}
	_, absent := Bytes(30, 3)
	remove(0, absent)
	remove(0)

	data, _ := Bytes(1000, 1)
	for range 2 { // the blob can be put again
		d := a.putBlob(t, 1000, 1)
		blob, err := a.Blobs.Open(ctx, d)
		must(t, err)
		defer blob.Close()
		remove(1, d, absent, d)
		a.lacksBlob(t, d)
		b.lacksBlob(t, d)
		if rest, err := io.ReadAll(blob); err != nil || !bytes.Equal(rest, data) {
			t.Errorf("an open blob: %d bytes, %v", len(rest), err)
		}
	}

	d, e, f := a.putBlob(t, 1000, 1), a.putBlob(t, 2000, 2), a.putBlob(t, 3000, 3)
	one := store.Ref{Kind: "a", Key: "one"}
	two := store.Ref{Kind: "b", Key: "two"}
	other := a.put(t, store.Record{Ref: store.Ref{Kind: "a", Key: "other"}, Needs: []modproxy.Digest{f}})
	a.put(t, store.Record{Ref: one, Needs: []modproxy.Digest{d}})
	a.put(t, store.Record{Ref: two, Needs: []modproxy.Digest{e, d}})
	if how == store.Collect {
		remove(0, d, e)
		r, err := a.Records.Get(ctx, two)
		must(t, err)
		must(t, a.Records.Delete(ctx, two, r.Revision))
		remove(1, d, e)
		a.lacksBlob(t, e)
		a.hasBlob(t, d, data)
		return
	}
	remove(1, d)
	a.lacksBlob(t, d)
	a.lacks(t, one, two)
	b.holds(t, other)
	wantNeeding(t, b, e)
}

// testRaces tests concurrent processes: a record whose Put succeeds has its blobs, and a record whose Put conflicts has
// changed.
func testRaces(t *testing.T, open func(t *testing.T, n int) []Handle) {
	t.Run("blobs", func(t *testing.T) {
		handles := open(t, 4)
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				data, d := Bytes(10_000, byte(i%4))
				if err := handles[i/4%4].Blobs.Put(t.Context(), d, bytes.NewReader(data)); err != nil {
					t.Errorf("Put: %v", err)
				}
			})
		}
		group.Wait()
		for i := range 4 {
			data, d := Bytes(10_000, byte(i))
			handles[i].hasBlob(t, d, data)
		}
	})
	t.Run("put and open", func(t *testing.T) {
		handles := open(t, 2)
		data, d := Bytes(1000, 1)
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				for range 20 {
					err := handles[i%2].Blobs.Put(t.Context(), d, bytes.NewReader(data))
					blob, opened := handles[i%2].Blobs.Open(t.Context(), d)
					if opened == nil {
						blob.Close()
					}
					if err != nil || opened != nil && !errors.Is(opened, fs.ErrNotExist) {
						t.Errorf("Put = %v, Open = %v", err, opened)
					}
					if _, err := handles[i%2].Blobs.Remove(t.Context(), store.Collect, d); err != nil {
						t.Errorf("Remove = %v", err)
					}
				}
			})
		}
		group.Wait()
	})
	t.Run("swap", func(t *testing.T) {
		handles := open(t, 4)
		var group sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 16 {
			group.Go(func() {
				_, err := handles[i%4].Records.Put(t.Context(), store.Record{Ref: ref, Value: []byte(fmt.Sprint(i))})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !errors.Is(err, store.ErrConflict) {
					t.Errorf("Put = %v", err)
				}
			})
		}
		group.Wait()
		if won != 1 {
			t.Errorf("%d won", won)
		}
	})
	for how, name := range map[store.Removal]string{store.Evict: "evict", store.Collect: "collect"} {
		t.Run("keep and "+name, func(t *testing.T) { testKeepAndRemove(t, open(t, 2), how) })
	}
}

func testKeepAndRemove(t *testing.T, handles []Handle, how store.Removal) {
	ctx := t.Context()
	a, b := handles[0], handles[1]
	data, d := Bytes(1000, 1)
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 50 {
			if err := a.Blobs.Put(ctx, d, bytes.NewReader(data)); err != nil {
				t.Errorf("Put of the blob = %v", err)
			}
			r := store.Record{Ref: store.Ref{Kind: "a", Key: fmt.Sprint(i)}, Needs: []modproxy.Digest{d}}
			if _, err := a.Records.Put(ctx, r); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Put of the record = %v", err)
			}
		}
	})
	for range 50 {
		if _, err := b.Blobs.Remove(ctx, how, d); err != nil {
			t.Errorf("Remove = %v", err)
		}
	}
	group.Wait()
	if _, err := a.Blobs.Stat(ctx, d); err != nil && a.list(t, "a", "") != "" {
		t.Errorf("the blob is gone, and records are there: %q", a.list(t, "a", ""))
	}
}
