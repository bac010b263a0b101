package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

func TestKeepErrors(t *testing.T) {
	data, d := dataOf("100.1")
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		content store.Content
		want    error
	}{
		"short":        {store.Content{Digest: d, Size: 100, Reader: bytes.NewReader(data[:99])}, store.ErrDamaged},
		"long":         {store.Content{Digest: d, Size: 99, Reader: bytes.NewReader(data)}, store.ErrDamaged},
		"other":        {store.Content{Digest: d, Size: 100, Reader: bytes.NewReader(flip(data, 1))}, store.ErrDamaged},
		"wrong size":   {store.Content{Digest: d, Size: 101, Reader: bytes.NewReader(data)}, store.ErrDamaged},
		"reader":       {store.Content{Digest: d, Size: 100, Reader: readerFunc(func([]byte) (int, error) { return 0, broken })}, broken},
		"not the blob": {store.Content{Digest: modproxy.Digest{1}, Size: 0, Reader: bytes.NewReader(nil)}, store.ErrDamaged},
	} {
		f := newBounded(t, 1000)
		r := store.Record{Ref: refOf("100.1"), Needs: []modproxy.Digest{d}}
		if _, err := f.Keep(t.Context(), r, test.content); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		equal(t, name+": there", f.there(t), "")
		f.mustGet(t, "100.1")
		other := store.Record{Ref: refOf("other"), Needs: []modproxy.Digest{d}}
		if _, err := f.Keep(t.Context(), other, store.Content{Digest: d, Size: 101}); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("of another size than what is there: %v", err)
		}
	}
	f := newFixture(t)
	f.mustGet(t, "100.1")
	if _, err := f.Keep(t.Context(), store.Record{Ref: refOf("100.1")}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("another revision: %v", err)
	}
	if _, err := f.Keep(t.Context(), store.Record{Ref: refOf("100.2"), Needs: []modproxy.Digest{{1}}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its blob: %v", err)
	}
	f.storage.Fail(broken)
	var storage *store.StorageError
	if err := f.get(t.Context(), "100.2"); !errors.As(err, &storage) || !errors.Is(err, broken) || !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("a broken storage: %v", err)
	}
	f.storage.Fail(nil)
	ctx, cancel := context.WithCancel(t.Context())
	f.during = func(string) { cancel() }
	if err := f.put(ctx, "100.2"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends: %v", err)
	}
	f.during = nil
	f.mustGet(t, "100.2")
}

// A new record does not rely on an existing damaged blob.
func TestKeepOverDamage(t *testing.T) {
	for name, damage := range map[string]func(*fixture, *metered, modproxy.Digest){
		"damaged":    func(f *fixture, _ *metered, d modproxy.Digest) { f.storage.Replace(d, make([]byte, 100)) },
		"unreadable": func(_ *fixture, b *metered, _ modproxy.Digest) { b.fail = errors.New("input/output error") },
	} {
		f := newFixture(t)
		b := &metered{}
		f.change(t, func(s *store.Config) { b.blobs, s.Blobs = s.Blobs, b })
		f.mustGet(t, "100.1+a")
		_, d := dataOf("100.1")
		damage(f, b, d)
		if err := f.put(t.Context(), "100.1+b"); err != nil {
			t.Error(err)
		}
		b.fail = nil
		f.mustGet(t, "100.1+b")
		equal(t, name+": there", f.there(t), "100.1+b")
		equal(t, name+": set aside", len(f.storage.Evidence()), 1)
		equal(t, name+": told", f.count(store.BlobDamaged), 1)
	}
}

// An unreadable blob stays, and is served when it can be read again.
func TestUnreadable(t *testing.T) {
	for _, memory := range []int64{0, -1} {
		f := newFixture(t)
		b := &metered{}
		f.change(t, func(s *store.Config) { b.blobs, s.Blobs, s.Memory = s.Blobs, b, memory })
		data, d := random(200_000, 1)
		f.keep(t, data, d)
		b.fail = errors.New("input/output error")
		r, err := f.Open(t.Context(), d, int64(len(data)))
		if err == nil {
			_, err = io.ReadAll(r)
			r.Close()
		}
		if !errors.Is(err, store.ErrUnreadable) || !errors.Is(err, b.fail) {
			t.Errorf("%v", err)
		}
		if _, err := f.Open(t.Context(), d, int64(len(data))); !errors.Is(err, store.ErrUnreadable) {
			t.Errorf("when it is opened next: %v", err)
		}
		equal(t, "there", f.there(t), "it")
		b.fail = nil
		serve(t, f, d, data, "", "none")
	}
}

// A blob whose size differs from its record stays if its digest is right.
func TestWrongSize(t *testing.T) {
	for _, memory := range []int64{0, -1} {
		data, d := random(1000, 1)
		f := with(t, memory, data, d)
		for _, size := range []int64{0, 999, 1001} {
			for range 2 {
				if _, err := f.Open(t.Context(), d, size); !errors.Is(err, store.ErrDamaged) {
					t.Errorf("size %d: %v", size, err)
				}
				serve(t, f, d, data, "", "none")
			}
		}
		equal(t, "set aside", len(f.storage.Evidence()), 0)
	}
}

// The memory is bounded, even with readers that never end.
func TestMemoryIsBounded(t *testing.T) {
	f := newFixture(t)
	f.change(t, func(c *store.Config) { c.Memory = 1 << 20 }) // ten of the blobs below
	var open []io.Closer
	for i := range 40 {
		data, d := random(100_000, byte(i+1))
		f.keep(t, data, d)
		r := f.mustOpenBlob(t, d, len(data))
		open = append(open, r)
		// Readers from memory do not depend on the blob in the storage.
		f.storage.Replace(d, nil)
		if _, cold := r.(modproxy.Sender); cold != (i >= 10) {
			t.Fatalf("%d: not in memory: %v", i, cold)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d: %d bytes, %v", i, len(got), err)
		}
		used, idle := f.Held()
		if want := int64(100_000 * min(i+1, 10)); used != want || idle != 0 {
			t.Errorf("%d blobs are read: %d bytes in memory, %d of them idle; want %d, 0", i+1, used, idle, want)
		}
	}
	// The first blob is dropped while it is read, and counts until its reader is closed.
	for _, r := range open[1:] {
		r.Close()
		r.Close()
	}
	data, d := random(100_000, 0)
	f.keep(t, data, d)
	f.mustOpenBlob(t, d, len(data)).Close()
	if used, idle := f.Held(); used != 1_000_000 || idle != 900_000 {
		t.Errorf("one blob is read: %d bytes in memory, %d of them idle", used, idle)
	}
	open[0].Close()
	if used, idle := f.Held(); idle != used {
		t.Errorf("at the end: %d bytes in memory, %d of them idle", used, idle)
	}
}

// The account follows the stored blobs: nothing remains of a lost blob.
func TestLostBlobsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 10_000)
		for i := range 40 {
			f.mustGet(t, fmt.Sprintf("100.%d", i))
		}
		f.settled(t, 4000)
		equal(t, "known", f.Known(), 40)
		for i := range 40 {
			data, d := dataOf(fmt.Sprintf("100.%d", i))
			f.storage.Replace(d, nil)
			if _, err := f.Open(t.Context(), d, int64(len(data))); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		f.settled(t, 0)
		equal(t, "known when all are lost", f.Known(), 0)
		equal(t, "told", f.count(store.BlobDamaged), 40)
		for r := range f.Records.List(t.Context(), "", "") {
			t.Errorf("%v has its record", r.Ref)
		}
	})
}

// A blob that is lost and stored again during reads counts once.
func TestAccountBesideReaders(t *testing.T) {
	f := newBounded(t, 10_000)
	f.mustGet(t, "100.1")
	_, d := dataOf("100.1")
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 300 {
				if err := f.get(context.Background(), "100.1"); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrConflict) {
					t.Error(err)
				}
			}
		}()
	}
	go func() {
		defer func() { done <- struct{}{} }()
		for i := range 300 {
			switch i % 3 {
			case 0:
				f.storage.Replace(d, nil)
			case 1:
				_ = f.SetAside(context.Background(), d)
			case 2:
				_, _ = f.Discard(context.Background(), refOf("100.1"))
			}
			time.Sleep(50 * time.Microsecond)
		}
	}()
	for range 5 {
		<-done
	}
	f.mustGet(t, "100.1")
	if kept, reserved := f.Usage(); kept != 100 || reserved != 0 {
		t.Errorf("kept %d, reserved %d", kept, reserved)
	}
	equal(t, "known", f.Known(), 1)
}

// If one of two processes with one storage evicts, quarantines or discards a blob, the other one stores it again. No
// reader gets wrong bytes.
func TestTwoStoresOverOneStorage(t *testing.T) {
	a, b := newBounded(t, 1000), newBounded(t, 1000)
	b.storage = a.storage
	b.restart(t)
	done := make(chan struct{})
	for i, f := range []*fixture{a, b} {
		go func() {
			defer func() { done <- struct{}{} }()
			for round := range 400 {
				key := fmt.Sprintf("%d.1", 100*(1+(round*7+i)%6))
				if err := f.get(context.Background(), key); err != nil && !errors.Is(err, modproxy.ErrUnavailable) &&
					!errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrConflict) {
					t.Errorf("%s: %v", key, err)
				}
				if round%50 == 0 {
					_, d := dataOf(key)
					_ = f.SetAside(context.Background(), d)
					_, _ = f.storage.Purge(context.Background(), 0)
				}
			}
		}()
	}
	<-done
	<-done
	for r, err := range a.Records.List(t.Context(), "", "") {
		if _, missing := a.Blobs.Stat(t.Context(), r.Needs[0]); err != nil || missing != nil {
			t.Errorf("%v: %v, %v", r.Ref, err, missing)
		}
	}
}
