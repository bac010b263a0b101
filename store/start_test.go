package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// odd is a storage with some replaced methods.
type odd struct {
	blobs
	open func(store.Blob) store.Blob
	list error
}

func (b *odd) Open(ctx context.Context, d modproxy.Digest) (store.Blob, error) {
	blob, err := b.blobs.Open(ctx, d)
	if err == nil && b.open != nil {
		blob = b.open(blob)
	}
	return blob, err
}

func (b *odd) Blobs(ctx context.Context) iter.Seq2[store.BlobInfo, error] {
	if b.list != nil {
		return func(yield func(store.BlobInfo, error) bool) { yield(store.BlobInfo{}, b.list) }
	}
	return b.blobs.Blobs(ctx)
}

type oddBlob struct {
	store.Blob
	read func(p []byte) (int, error)
}

func (b oddBlob) Read(p []byte) (int, error) { return b.read(p) }

// If the storage panics in shared work, all callers get an error.
func TestPanicOfTheStorage(t *testing.T) {
	f := newFixture(t)
	b := &odd{open: func(blob store.Blob) store.Blob {
		return oddBlob{blob, func([]byte) (int, error) { panic("broken") }}
	}}
	f.mustGet(t, "100.1")
	f.change(t, func(s *store.Config) { b.blobs, s.Blobs, s.Memory = s.Blobs, b, 0 })
	data, d := dataOf("100.1")
	if _, err := f.Open(t.Context(), d, int64(len(data))); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	b.open = nil
	f.mustGet(t, "100.1")
	if used, _ := f.Held(); used != 100 {
		t.Errorf("%d bytes in memory", used)
	}
}

// A caller of shared work returns when its context ends. The work continues for the others, and Close waits for it.
func TestSharedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		opened := 0
		b := &odd{open: func(blob store.Blob) store.Blob {
			opened++
			return oddBlob{blob, func(p []byte) (int, error) {
				time.Sleep(time.Minute)
				return blob.Read(p)
			}}
		}}
		f.mustGet(t, "100.1")
		f.change(t, func(s *store.Config) { b.blobs, s.Blobs, s.Memory = s.Blobs, b, 0 })
		data, d := dataOf("100.1")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error)
		go func() {
			_, err := f.Open(ctx, d, int64(len(data)))
			ended <- err
		}()
		go func() {
			time.Sleep(2 * time.Second)
			r, err := f.Open(t.Context(), d, int64(len(data)))
			if err == nil {
				var got []byte
				if got, err = io.ReadAll(r); !bytes.Equal(got, data) {
					t.Error("other bytes")
				}
				r.Close()
			}
			ended <- err
		}()
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := <-ended; err != nil || time.Since(began) != time.Minute || opened != 1 {
			t.Errorf("after %v, opened %d times: %v", time.Since(began), opened, err)
		}

		go func() { ended <- f.Check(context.Background(), d) }()
		synctest.Wait()
		closing := time.Now()
		if err := f.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed before the work was done: %v", err)
		}
		f.close(t)
		equal(t, "waited", time.Since(closing), time.Minute)
		var storage *store.StorageError
		if err := <-ended; err != nil && !errors.As(err, &storage) {
			t.Error(err)
		}
		if err := f.Check(context.Background(), d); !errors.As(err, &storage) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// If counting a storage fails at the start, it is counted when room is needed.
func TestCountFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.mustGet(t, "600.1")
		b := &odd{list: errors.New("broken")}
		f.change(t, func(s *store.Config) { b.blobs, s.Blobs = s.Blobs, b })
		f.Start()
		synctest.Wait()
		equal(t, "told", f.count(store.StorageFailed), 1)
		f.mustGet(t, "600.1")
		if err := f.get(t.Context(), "600.2"); !errors.Is(err, b.list) || !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		b.list = nil
		f.mustGet(t, "600.2")
		equal(t, "there", f.there(t), "600.2")
		f.settled(t, 600)
	})
}

// At its start, a Store reports the number of blobs that no record needs. A blob that was put since may be about to get
// a record.
func TestStartTellsOfUnrecordedBlobs(t *testing.T) {
	for _, orphans := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.mustGet(t, "100.1")
			put := func(what string) {
				data, d := dataOf(what)
				if err := f.storage.Blobs().Put(t.Context(), d, bytes.NewReader(data)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range orphans {
				put(fmt.Sprintf("200.%d", i))
			}
			time.Sleep(time.Second)
			f.restart(t)
			time.Sleep(time.Second)
			f.Open(t.Context(), modproxy.Digest{}, 1) // this blob does not exist: the Store is in use before it starts
			time.Sleep(time.Second)
			put("300.1")
			f.Start()
			synctest.Wait()
			var told []store.Event
			for _, e := range f.events {
				if e.Kind == store.Unrecorded {
					told = append(told, e)
				}
			}
			if orphans == 0 && len(told) > 0 || orphans > 0 && (len(told) != 1 || told[0].Count != 2 || told[0].Bytes != 400) {
				t.Errorf("with %d: told %+v", orphans, told)
			}
		})
	}
}
