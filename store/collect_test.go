package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// orphan puts a blob that no record needs.
func (f *fixture) orphan(t *testing.T, key string) modproxy.Digest {
	t.Helper()
	data, d := dataOf(key)
	if err := f.Blobs.Put(t.Context(), d, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range 5 {
			f.mustGet(t, fmt.Sprintf("100.%d", i))
			time.Sleep(time.Second)
		}
		f.mustGet(t, "50.1")
		_, d := dataOf("50.1")
		if err := f.SetAside(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		old := f.orphan(t, "77.1")
		time.Sleep(2 * time.Hour)
		f.restart(t) // restart counts the orphans
		young := f.orphan(t, "78.1")
		removed := store.Collected{
			Orphans: store.Amount{Blobs: 1, Bytes: 77}, Evicted: store.Amount{Blobs: 3, Bytes: 300},
			Quarantine: store.Amount{Blobs: 1, Bytes: 50}, Kept: 278,
		}
		for _, dry := range []bool{true, false} {
			got, err := f.Collect(t.Context(), store.Collection{MaxSize: 299, OrphanAge: time.Hour, QuarantineAge: time.Hour, DryRun: dry})
			if got != removed || err != nil {
				t.Errorf("dry run %v: %+v, %v; want %+v", dry, got, err, removed)
			}
			if _, err := f.Blobs.Stat(t.Context(), old); (err == nil) != dry {
				t.Errorf("dry run %v: an old orphan: %v", dry, err)
			}
		}
		if _, err := f.Blobs.Stat(t.Context(), young); err != nil {
			t.Errorf("a young orphan: %v", err)
		}
		equal(t, "there", f.there(t), "100.3 100.4")
		equal(t, "set aside", len(f.storage.Evidence()), 0)
		f.mustGet(t, "100.0")
		equal(t, "damaged", f.count(store.BlobDamaged), 0)
	})
}

// hooked calls a function before a record is put.
type hooked struct {
	store.Records
	before func()
}

func (x hooked) Put(ctx context.Context, r store.Record) (uint64, error) {
	x.before()
	return x.Records.Put(ctx, r)
}

// Collect keeps blobs that are about to have a record, are being read or are pinned, and blobs whose records may be
// unreadable.
func TestCollectIsCareful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		collect := func(what string, want int) {
			t.Helper()
			for _, dry := range []bool{true, false} {
				got, err := f.Collect(t.Context(), store.Collection{MaxSize: 1, DryRun: dry})
				if what == "about to have a record" && dry {
					continue
				}
				if got.Orphans.Blobs+got.Evicted.Blobs != want || err != nil {
					t.Errorf("%s: %+v, %v; want %d removed", what, got, err, want)
				}
			}
		}
		f.orphan(t, "100.0")
		records := f.Records
		f.change(t, func(s *store.Config) {
			s.Records = hooked{records, func() { collect("about to have a record", 0) }}
		})
		f.mustGet(t, "100.0")
		f.restart(t)
		r := f.mustOpen(t, "100.0")
		collect("read", 0)
		r.Close()
		f.change(t, func(s *store.Config) { s.Pins = pins{"100.0": true} })
		collect("pinned", 0)
		f.change(t, func(s *store.Config) { s.Pins, s.Kinds = nil, map[store.Kind]store.Codec{} })
		collect("of an unknown kind", 0)
		f.change(t, func(s *store.Config) { s.Kinds = nil })
		f.storage.Damage(refOf("100.0"))
		if got, err := f.Collect(t.Context(), store.Collection{}); got.Orphans.Blobs != 0 || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		collect("a damaged record", 1)
		equal(t, "there", f.there(t), "")
	})
}

func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.change(t, func(c *store.Config) { c.Memory = 1 << 20 }) // blobs in memory are removed, too
		f.mustGet(t, "100.1+a", "100.1+b", "100.2")
		if list, err := f.Discard(t.Context(), refOf("1.0")); len(list) != 0 || err != nil {
			t.Errorf("one that was never kept: %+v, %v", list, err)
		}
		r := f.mustOpen(t, "100.1+a")
		defer r.Close()
		got, err := f.Discard(t.Context(), refOf("100.1+a"))
		if len(got) != 1 || got[0].Record.Key != "100.1+a" || err != nil ||
			!slices.Equal(got[0].Shared, []store.Ref{refOf("100.1+b")}) {
			t.Errorf("%+v, %v", got, err)
		}
		equal(t, "there", f.there(t), "100.1+b 100.2")
		f.mustGet(t, "100.1+b") // from memory
		f.storage.Fail(errors.New("broken"))
		if _, err := f.Discard(t.Context(), refOf("100.1+b")); err == nil {
			t.Error("a storage that fails")
		}
		f.storage.Fail(nil)
		got, err = f.Discard(t.Context(), refOf("100.1+b"))
		if len(got) != 1 || got[0].Shared != nil || err != nil {
			t.Errorf("the last one: %+v, %v", got, err)
		}
		f.settled(t, 100)
		equal(t, "evicted to make room", f.count(store.BlobEvicted), 0)
		equal(t, "there", f.there(t), "100.2")
		if data, err := io.ReadAll(r); len(data) != 100 || err != nil {
			t.Errorf("a reader: %d bytes, %v", len(data), err)
		}
		data, d := dataOf("100.1")
		if _, err := f.Open(t.Context(), d, int64(len(data))); err == nil {
			t.Error("it is still in memory")
		}
		f.mustGet(t, "100.1+a", "100.1+b")
		f.storage.Damage(refOf("100.2"))
		got, err = f.Discard(t.Context(), refOf("100.1+a"), refOf("100.1+b"), refOf("100.2"), refOf("100.3"))
		if len(got) != 3 || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		equal(t, "there", f.there(t), "")
		f.settled(t, 100) // the damaged record needed it
		if got, err := f.Collect(t.Context(), store.Collection{}); got.Orphans.Bytes != 100 || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		f.settled(t, 0)
	})
}

func TestDiscardWhileKeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.mustGet(t, "100.1+a")
		f.during = func(string) {
			if _, err := f.Discard(t.Context(), refOf("100.1+a")); !errors.Is(err, modproxy.ErrUnavailable) {
				t.Errorf("while its bytes are written: %v", err)
			}
		}
		_, d := dataOf("100.1")
		f.storage.Replace(d, nil)
		if err := f.put(t.Context(), "100.1+b"); err != nil {
			t.Error(err)
		}
	})
}

// Stat returns uses that are not written yet.
func TestStat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.mustGet(t, "100.1")
		time.Sleep(time.Minute)
		f.mustGet(t, "100.1")
		_, d := dataOf("100.1")
		info, err := f.Stat(t.Context(), d)
		if err != nil || info.Size != 100 || !info.Used.Equal(time.Now()) || info.Time.Equal(info.Used) {
			t.Errorf("%+v, %v", info, err)
		}
	})
}
