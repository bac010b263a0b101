package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

func testBlobs(t *testing.T, open func(t *testing.T, n int) []Handle) {
	data, digest := Bytes(100_000, 1)
	two := func(t *testing.T) (a, b Handle) {
		handles := open(t, 2)
		return handles[0], handles[1]
	}
	t.Run("kept", func(t *testing.T) {
		a, b := two(t)
		a.lacksBlob(t, digest)
		for _, n := range []int{0, 1, 32 << 10, 3<<20 + 1} {
			data, digest := Bytes(n, byte(n))
			must(t, a.Blobs.Put(t.Context(), digest, iotest.HalfReader(bytes.NewReader(data))))
			a.hasBlob(t, digest, data)
			b.hasBlob(t, digest, data)
		}
	})
	t.Run("read from anywhere", func(t *testing.T) {
		a, b := two(t)
		a.putBlob(t, 100_000, 1)
		blob, err := b.Blobs.Open(t.Context(), digest)
		must(t, err)
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
			wantError(t, "Put of other bytes", a.Blobs.Put(t.Context(), digest, bytes.NewReader(bad)), store.ErrDamaged)
			b.lacksBlob(t, digest)
		}
	})
	t.Run("files", func(t *testing.T) {
		a, b := two(t)
		for size := range 4 { // the file is linked, or copied
			data, digest := Bytes(100_000+size, byte(size))
			f := file{bytes.NewReader(data), filepath.Join(t.TempDir(), "file"), size%2 == 0}
			must(t, os.WriteFile(f.name, data, 0o600))
			must(t, a.Blobs.Put(t.Context(), digest, f))
			b.hasBlob(t, digest, data)
			must(t, os.Remove(f.name))
			b.hasBlob(t, digest, data)
			_, err := b.Blobs.Remove(t.Context(), store.Evict, digest)
			must(t, err)
			other, _ := Bytes(100_000+size, 99)
			f.Reader = bytes.NewReader(other)
			must(t, os.WriteFile(f.name, other, 0o600))
			wantError(t, "Put of another file", a.Blobs.Put(t.Context(), digest, f), store.ErrDamaged)
			b.lacksBlob(t, digest)
			if is, err := os.ReadFile(f.name); err != nil || !bytes.Equal(is, other) {
				t.Errorf("the file has %d bytes, %v", len(is), err)
			}
		}
	})
	t.Run("reader fails", func(t *testing.T) {
		a, b := two(t)
		broken := errors.New("broken")
		err := a.Blobs.Put(t.Context(), digest, io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)))
		wantError(t, "Put", err, broken)
		b.lacksBlob(t, digest)
	})
	t.Run("context ends", func(t *testing.T) {
		a, b := two(t)
		ctx, cancel := context.WithCancel(t.Context())
		err := a.Blobs.Put(ctx, digest, io.MultiReader(bytes.NewReader(data[:50_000]), readerFunc(func([]byte) (int, error) {
			cancel()
			return 0, io.EOF
		}), bytes.NewReader(data[50_000:])))
		wantError(t, "Put", err, context.Canceled)
		b.lacksBlob(t, digest)
	})
	t.Run("there already", func(t *testing.T) {
		a, b := two(t)
		a.putBlob(t, 100_000, 1)
		must(t, b.Blobs.Put(t.Context(), digest, iotest.ErrReader(errors.New("it was read"))))
		a.hasBlob(t, digest, data)
	})
	t.Run("all", func(t *testing.T) { testAll(t, open(t, 2)) })
	t.Run("needed", func(t *testing.T) { testNeeded(t, open(t, 2)) })
	t.Run("used", func(t *testing.T) {
		a, b := two(t)
		d, e := a.putBlob(t, 10, 1), a.putBlob(t, 20, 2)
		later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		_, absent := Bytes(30, 3)
		must(t, a.Blobs.Touch(t.Context(), nil))
		must(t, a.Blobs.Touch(t.Context(), map[modproxy.Digest]time.Time{d: later, absent: later}))
		for _, info := range infos(t, b) {
			stat, err := b.Blobs.Stat(t.Context(), info.Digest)
			must(t, err)
			if !stat.Used.Equal(info.Used) || !stat.Time.Equal(info.Time) {
				t.Errorf("Stat = %v, and Blobs has %v", stat, info)
			}
			switch {
			case info.Digest == d && !info.Used.Equal(later), info.Digest == e && !info.Used.Equal(info.Time):
				t.Errorf("%s was put %v, and used %v", info.Digest, info.Time, info.Used)
			}
		}
		_, err := b.Blobs.Remove(t.Context(), store.Evict, d)
		must(t, err)
		a.putBlob(t, 10, 1)
		if info, err := a.Blobs.Stat(t.Context(), d); err != nil || !info.Used.Equal(info.Time) {
			t.Errorf("evicted and put again: %v, %v", info, err)
		}
	})
}

// testNeeded compares the field Needed of blobs with the records.
func testNeeded(t *testing.T, handles []Handle) {
	a, b := handles[0], handles[1]
	d, other := a.putBlob(t, 10, 1), a.putBlob(t, 20, 2)
	wants := func(want bool) {
		t.Helper()
		info, err := b.Blobs.Stat(t.Context(), d)
		if listed := infos(t, b); err != nil || info.Needed != want || listed[d].Needed != want || listed[other].Needed {
			t.Errorf("Stat = %+v, %v; Blobs yields %+v; want needed: %v", info, err, listed, want)
		}
	}
	wants(false)
	ref := store.Ref{Kind: "k", Key: "a"}
	revision, err := a.Records.Put(t.Context(), store.Record{Ref: ref, Needs: []modproxy.Digest{d}})
	must(t, err)
	wants(true)
	must(t, a.Records.Delete(t.Context(), ref, revision))
	wants(false)
}

// file is a [store.File].
type file struct {
	io.Reader
	name  string
	links bool
}

func (f file) Link(name string) error {
	if !f.links {
		return errors.ErrUnsupported
	}
	return os.Link(f.name, name)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// infos returns the blobs that Blobs yields.
func infos(t *testing.T, h Handle) map[modproxy.Digest]store.BlobInfo {
	t.Helper()
	got := map[modproxy.Digest]store.BlobInfo{}
	for info, err := range h.Blobs.Blobs(t.Context()) {
		must(t, err)
		if _, twice := got[info.Digest]; twice {
			t.Errorf("%s was yielded twice", info.Digest)
		}
		got[info.Digest] = info
	}
	return got
}

func testAll(t *testing.T, handles []Handle) {
	a, b := handles[0], handles[1]
	list := func() map[modproxy.Digest]int64 {
		t.Helper()
		got := map[modproxy.Digest]int64{}
		for d, info := range infos(t, b) {
			if age := time.Since(info.Time); age < -time.Minute || age > time.Minute {
				t.Errorf("%s was put %v ago", d, age)
			}
			got[d] = info.Size
		}
		return got
	}
	want := map[modproxy.Digest]int64{}
	if got := list(); !maps.Equal(got, want) {
		t.Errorf("empty: %v", got)
	}
	var digests []modproxy.Digest
	for i := range 20 {
		d := a.putBlob(t, i, byte(i))
		a.putBlob(t, i, byte(i))
		want[d], digests = int64(i), append(digests, d)
	}
	if got := list(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	_, err := a.Blobs.Remove(t.Context(), store.Collect, digests[3:5]...)
	must(t, err)
	delete(want, digests[3])
	delete(want, digests[4])
	if got := list(); !maps.Equal(got, want) {
		t.Errorf("after two are gone: %v, want %v", got, want)
	}
	for info, err := range b.Blobs.Blobs(t.Context()) { // blobs may be removed meanwhile
		must(t, err)
		_, err := b.Blobs.Remove(t.Context(), store.Collect, info.Digest)
		must(t, err)
	}
	if got := list(); len(got) != 0 {
		t.Errorf("after all were removed: %v", got)
	}
}
