// Package cachetest has the suites that every [cache.Index] and [cache.Blobs]
// passes, one subtest for each word of their contracts, and an index and blobs
// in memory for tests.
package cachetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// Bytes are n bytes that differ from seed to seed, and their digest.
func Bytes(n int, seed byte) ([]byte, modproxy.Digest) {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b, sha256.Sum256(b)
}

// Blobs tests blobs. open gives n handles on one storage that is empty.
func Blobs(t *testing.T, open func(t *testing.T, n int) []cache.Blobs) {
	ctx := t.Context()
	data, digest := Bytes(100_000, 1)
	two := func(t *testing.T) (a, b cache.Blobs) {
		handles := open(t, 2)
		return handles[0], handles[1]
	}
	t.Run("absent", func(t *testing.T) {
		a, _ := two(t)
		absent(t, a, digest)
		if err := a.Quarantine(digest); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Quarantine = %v, want fs.ErrNotExist", err)
		}
	})
	t.Run("kept", func(t *testing.T) {
		a, b := two(t)
		for _, n := range []int{0, 1, 32 << 10, 3<<20 + 1} {
			data, digest := Bytes(n, byte(n))
			// One byte at a time would be slow; halves show that reads are joined.
			must(t, a.Put(ctx, digest, iotest.HalfReader(bytes.NewReader(data))))
			holds(t, a, digest, data)
			holds(t, b, digest, data)
		}
	})
	t.Run("read from anywhere", func(t *testing.T) {
		a, b := two(t)
		must(t, a.Put(ctx, digest, bytes.NewReader(data)))
		blob := mustOpen(t, b, digest)
		defer blob.Close()
		for _, at := range []int64{50_000, 0, 99_999, 100_000, 7} {
			if got, err := blob.Seek(at, io.SeekStart); got != at || err != nil {
				t.Fatalf("Seek(%d) = %d, %v", at, got, err)
			}
			if rest, err := io.ReadAll(blob); err != nil || !bytes.Equal(rest, data[at:]) {
				t.Fatalf("from %d: %d bytes, %v", at, len(rest), err)
			}
		}
	})
	t.Run("other bytes", func(t *testing.T) {
		a, b := two(t)
		other, _ := Bytes(100_000, 2)
		for _, bad := range [][]byte{other, data[:99_999], nil, append(bytes.Clone(data), 0)} {
			if err := a.Put(ctx, digest, bytes.NewReader(bad)); !errors.Is(err, cache.ErrDamaged) {
				t.Errorf("Put of %d bytes = %v, want ErrDamaged", len(bad), err)
			}
			absent(t, b, digest)
		}
	})
	t.Run("reader fails", func(t *testing.T) {
		a, b := two(t)
		broken := errors.New("broken")
		err := a.Put(ctx, digest, io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("Put = %v, want the reader's error", err)
		}
		absent(t, b, digest)
	})
	t.Run("context ends", func(t *testing.T) {
		a, b := two(t)
		ctx, cancel := context.WithCancel(ctx)
		reader := io.MultiReader(bytes.NewReader(data[:50_000]), readerFunc(func([]byte) (int, error) {
			cancel()
			return 0, io.EOF
		}), bytes.NewReader(data[50_000:]))
		if err := a.Put(ctx, digest, reader); !errors.Is(err, context.Canceled) {
			t.Errorf("Put = %v, want context.Canceled", err)
		}
		absent(t, b, digest)
	})
	t.Run("there already", func(t *testing.T) {
		a, b := two(t)
		must(t, a.Put(ctx, digest, bytes.NewReader(data)))
		must(t, b.Put(ctx, digest, iotest.ErrReader(errors.New("it was read"))))
		holds(t, a, digest, data)
	})
	t.Run("quarantined", func(t *testing.T) {
		a, b := two(t)
		for range 2 {
			must(t, a.Put(ctx, digest, bytes.NewReader(data)))
			blob := mustOpen(t, a, digest)
			defer blob.Close()
			must(t, b.Quarantine(digest))
			absent(t, a, digest)
			if rest, err := io.ReadAll(blob); err != nil || !bytes.Equal(rest, data) {
				t.Errorf("an open blob: %d bytes, %v", len(rest), err)
			}
		}
	})
	t.Run("removed", func(t *testing.T) { removed(t, open(t, 2)) })
	t.Run("all", func(t *testing.T) { all(t, open(t, 2)) })
	t.Run("at once", func(t *testing.T) {
		handles := open(t, 4)
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				data, digest := Bytes(10_000, byte(i%4))
				if err := handles[i/4%4].Put(ctx, digest, bytes.NewReader(data)); err != nil {
					t.Errorf("Put: %v", err)
				}
			})
		}
		group.Wait()
		for i := range 4 {
			data, digest := Bytes(10_000, byte(i))
			holds(t, handles[i], digest, data)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t *testing.T, b cache.Blobs, d modproxy.Digest) cache.Blob {
	t.Helper()
	blob, err := b.Open(d)
	must(t, err)
	return blob
}

func absent(t *testing.T, b cache.Blobs, d modproxy.Digest) {
	t.Helper()
	if _, err := b.Open(d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open = %v, want fs.ErrNotExist", err)
	}
	if _, err := b.Stat(d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat = %v, want fs.ErrNotExist", err)
	}
}

func holds(t *testing.T, b cache.Blobs, d modproxy.Digest, want []byte) {
	t.Helper()
	size, err := b.Stat(d)
	must(t, err)
	blob := mustOpen(t, b, d)
	defer blob.Close()
	got, err := io.ReadAll(blob)
	must(t, err)
	if !bytes.Equal(got, want) || size != int64(len(want)) || blob.Size() != size {
		t.Errorf("%s has %d bytes, Stat %d, Size %d; want %d", d, len(got), size, blob.Size(), len(want))
	}
}

func removed(t *testing.T, handles []cache.Blobs) {
	a, b := handles[0], handles[1]
	data, digest := Bytes(100_000, 1)
	if err := a.Remove(digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of none = %v, want fs.ErrNotExist", err)
	}
	for range 2 { // it can be put again
		must(t, a.Put(t.Context(), digest, bytes.NewReader(data)))
		blob := mustOpen(t, a, digest)
		defer blob.Close()
		must(t, b.Remove(digest))
		absent(t, a, digest)
		absent(t, b, digest)
		if rest, err := io.ReadAll(blob); err != nil || !bytes.Equal(rest, data) {
			t.Errorf("an open blob: %d bytes, %v", len(rest), err)
		}
	}
}

func all(t *testing.T, handles []cache.Blobs) {
	a, b := handles[0], handles[1]
	list := func() map[modproxy.Digest]int64 {
		t.Helper()
		got := map[modproxy.Digest]int64{}
		for info, err := range b.All() {
			must(t, err)
			if age := time.Since(info.Time); age < -time.Minute || age > time.Minute {
				t.Errorf("%s was put %v ago", info.Digest, age)
			}
			if _, twice := got[info.Digest]; twice {
				t.Errorf("%s was yielded twice", info.Digest)
			}
			got[info.Digest] = info.Size
		}
		return got
	}
	want := map[modproxy.Digest]int64{}
	if got := list(); !maps.Equal(got, want) {
		t.Errorf("empty: %v", got)
	}
	var digests []modproxy.Digest
	for i := range 20 {
		data, digest := Bytes(i, byte(i))
		must(t, a.Put(t.Context(), digest, bytes.NewReader(data)))
		must(t, a.Put(t.Context(), digest, bytes.NewReader(data)))
		want[digest], digests = int64(i), append(digests, digest)
	}
	if got := list(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	must(t, a.Remove(digests[3]))
	must(t, a.Quarantine(digests[4]))
	delete(want, digests[3])
	delete(want, digests[4])
	if got := list(); !maps.Equal(got, want) {
		t.Errorf("after two are gone: %v, want %v", got, want)
	}
	for info, err := range b.All() { // who ranges may remove
		must(t, err)
		must(t, b.Remove(info.Digest))
	}
	for range b.All() {
		t.Error("all were removed, and one is there")
		break
	}
}
