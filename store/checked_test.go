package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/test/rig"
)

// with returns a fixture with a record that needs data.
func with(t *testing.T, memory int64, data []byte, d modproxy.Digest) *fixture {
	t.Helper()
	f := newFixture(t)
	f.change(t, func(c *store.Config) { c.Memory = memory })
	f.keep(t, data, d)
	return f
}

// keep stores a record that needs data, in place of any earlier one.
func (f *fixture) keep(t *testing.T, data []byte, d modproxy.Digest) {
	t.Helper()
	r, _ := f.Records.Get(t.Context(), refOf("it"))
	r.Ref, r.Needs = refOf("it"), []modproxy.Digest{d}
	if _, err := f.Keep(t.Context(), r, store.Content{Digest: d, Size: int64(len(data)), Reader: bytes.NewReader(data)}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) mustOpenBlob(t *testing.T, d modproxy.Digest, size int) modproxy.Body {
	t.Helper()
	r, err := f.Open(t.Context(), d, int64(size))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Both readers of blobs behave like any other reader.
func TestReaders(t *testing.T) {
	for _, memory := range []int64{0, -1} {
		for _, size := range []int{0, 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, 96 << 10, 96<<10 + 1, 100_000} {
			t.Run(fmt.Sprint(memory, " ", size), func(t *testing.T) {
				data, d := random(size, 1)
				r := with(t, memory, data, d).mustOpenBlob(t, d, size)
				defer r.Close()
				if err := iotest.TestReader(r, data); err != nil {
					t.Error(err)
				}
				if _, ok := r.(modproxy.Sender); ok != (memory < 0 && size > 0) {
					t.Errorf("Sender: %v", ok)
				}
			})
		}
	}
}

// A reader returns the content of its blob in every way of reading.
func TestReadersReadAnyhow(t *testing.T) {
	for _, memory := range []int64{0, -1} {
		data, d := random(200_000, 1)
		f := with(t, memory, data, d)
		random := rand.New(rand.NewPCG(1, 2))
		rounds := 30
		if rig.Long() {
			rounds = 100
		}
		for round := range rounds {
			r, want := f.mustOpenBlob(t, d, len(data)), bytes.NewReader(data)
			for range 8 {
				whence := random.IntN(3)
				offset := random.Int64N(220_000) - []int64{0, 110_000, 210_000}[whence]
				if random.IntN(3) == 0 {
					offset, whence = 0, io.SeekStart
				}
				at, err := r.Seek(offset, whence)
				wantAt, wantErr := want.Seek(offset, whence)
				if at != wantAt || (err == nil) != (wantErr == nil) {
					t.Fatalf("round %d: Seek(%d, %d) = %d, %v; want %d, %v", round, offset, whence, at, err, wantAt, wantErr)
				}
				n := random.Int64N(140_000)
				got, err := io.ReadAll(io.LimitReader(r, n))
				expected, _ := io.ReadAll(io.LimitReader(want, n))
				if err != nil || !bytes.Equal(got, expected) {
					t.Fatalf("round %d: %d bytes, %v; want %d", round, len(got), err, len(expected))
				}
			}
			r.Close()
		}
	}
}

func flip(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 0x10
	return data
}

// damages are possible damages of a blob.
var damages = map[string]func(data []byte) []byte{
	"first byte":  func(data []byte) []byte { return flip(data, 0) },
	"middle byte": func(data []byte) []byte { return flip(data, len(data)/2) },
	"last byte":   func(data []byte) []byte { return flip(data, len(data)-1) },
	"cut short":   func(data []byte) []byte { return data[:len(data)-1] },
	"longer":      func(data []byte) []byte { return append(bytes.Clone(data), 0) },
	"empty":       func([]byte) []byte { return []byte{} },
	"zeros":       func(data []byte) []byte { return make([]byte, len(data)) },
	"another":     func(data []byte) []byte { b, _ := random(len(data), 99); return b },
	"gone":        func([]byte) []byte { return nil },
}

var ranges = []string{"", "bytes=0-", "bytes=0-0", "bytes=100000-100010", "bytes=-1", "bytes=199999-", "bytes=5-6,9-10"}

// A damaged blob is not served, for any damage and any request. It is quarantined and its records are deleted. The blob
// that is stored afterwards is served.
func TestDamageIsNeverServed(t *testing.T) {
	data, d := random(200_000, 1)
	for name, damage := range damages {
		for _, memory := range []int64{0, -1} {
			f := with(t, memory, data, d)
			for i, ranged := range ranges {
				f.restart(t) // empties the memory
				f.storage.Replace(d, damage(data))
				serve(t, f, d, data, ranged, name)
				if _, err := f.Records.Get(t.Context(), refOf("it")); err == nil {
					t.Errorf("%s: its record is there", name)
				}
				equal(t, name+": told", f.count(store.BlobDamaged), i+1)
				f.keep(t, data, d)
				serve(t, f, d, data, ranged, "none")
			}
			want := len(ranges)
			if name == "gone" {
				want = 0
			}
			equal(t, name+": set aside", len(f.storage.Evidence()), want)
			equal(t, name+": refs", len(f.events[0].Refs), 1)
		}
	}
}

// serve answers a request for a range. It fails the test if a complete answer has a wrong byte, or if the answer is
// incomplete without damage.
func serve(t *testing.T, f *fixture, d modproxy.Digest, data []byte, ranged, damage string) {
	t.Helper()
	request := httptest.NewRequest("GET", "/", nil)
	if ranged != "" {
		request.Header.Set("Range", ranged)
	}
	r, err := f.Open(t.Context(), d, int64(len(data)))
	if err != nil {
		if damage == "none" {
			t.Errorf("%s: %v", ranged, err)
		}
		return
	}
	defer r.Close()
	if ranged != "" {
		if err := r.Verify(t.Context()); err != nil {
			if damage == "none" {
				t.Errorf("%s: %v", ranged, err)
			}
			return
		}
	}
	got, want := httptest.NewRecorder(), httptest.NewRecorder()
	http.ServeContent(got, request, "", time.Time{}, r)
	http.ServeContent(want, request, "", time.Time{}, bytes.NewReader(data))
	whole := int64(got.Body.Len()) == got.Result().ContentLength
	same := bytes.Equal(got.Body.Bytes(), want.Body.Bytes())
	if ranged == ranges[len(ranges)-1] { // its boundary is random
		same = bytes.Contains(got.Body.Bytes(), data[5:7])
	}
	if whole && !same || !whole && damage == "none" {
		t.Errorf("%s: %s: %d bytes of %d, the right ones: %v", damage, ranged, got.Body.Len(), got.Result().ContentLength, same)
	}
}

// A damaged end is found before any of its bytes are returned.
func TestEndIsWithheld(t *testing.T) {
	for _, size := range []int{1, 1000, 32 << 10, 32<<10 + 1, 96 << 10, 200_000} {
		data, d := random(size, 7)
		f := with(t, -1, data, d)
		f.storage.Replace(d, flip(data, 0))
		r := f.mustOpenBlob(t, d, size)
		got, err := io.ReadAll(r)
		if len(got) > max(0, size-32<<10) || !errors.Is(err, store.ErrDamaged) {
			t.Errorf("of %d: %d bytes; %v", size, len(got), err)
		}
		if n, again := r.Read(make([]byte, 10)); n != 0 || again != err {
			t.Errorf("after that: %d, %v", n, again)
		}
		r.Close()
	}
}

// metered counts the bytes read from blobs, and can change a blob while it is open.
type metered struct {
	blobs
	read atomic.Int64
	fail error
	data []byte // content of every blob; nil: the real content
}

type meteredBlob struct {
	store.Blob
	of *metered
}

func (b *metered) Open(ctx context.Context, d modproxy.Digest) (store.Blob, error) {
	blob, err := b.blobs.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	return meteredBlob{blob, b}, nil
}

func (b meteredBlob) Read(p []byte) (int, error) {
	if b.of.fail != nil {
		return 0, b.of.fail
	}
	at, _ := b.Seek(0, io.SeekCurrent)
	n, err := b.Blob.Read(p)
	b.of.read.Add(int64(n))
	if b.of.data != nil {
		copy(p[:n], b.of.data[at:])
	}
	return n, err
}

// seek verifies r, so that any part can be read, and moves to offset.
func seek(t *testing.T, r modproxy.Body, offset int64) {
	t.Helper()
	if err := r.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Seek(offset, io.SeekStart); err != nil {
		t.Fatal(err)
	}
}

// A blob that was read as a whole, in any way, is not read as a whole again for a part.
func TestPartsOfWhatWasChecked(t *testing.T) {
	const size = 10<<20 + 17
	data, d := random(size, 1)
	for name, whole := range map[string]func(f *fixture, r io.ReadSeeker) error{
		"streamed": func(_ *fixture, r io.ReadSeeker) error { _, err := io.Copy(io.Discard, r); return err },
		"a part": func(_ *fixture, r io.ReadSeeker) error {
			_, err := r.Seek(-1, io.SeekEnd)
			_, reading := io.ReadFull(r, make([]byte, 1))
			return errors.Join(err, reading)
		},
		"checked": func(f *fixture, _ io.ReadSeeker) error { return f.Check(t.Context(), d) },
	} {
		f := with(t, -1, data, d)
		b := &metered{}
		f.change(t, func(s *store.Config) { b.blobs, s.Blobs = s.Blobs, b })
		r := f.mustOpenBlob(t, d, size)
		if err := errors.Join(whole(f, r), r.Close()); err != nil {
			t.Fatal(err)
		}
		for _, offset := range []int64{0, 1, 128 << 10, 5 << 20, 10 << 20, size - 32<<10 - 1, size - 32<<10, size - 1} {
			b.read.Store(0)
			r := f.mustOpenBlob(t, d, size)
			seek(t, r, offset)
			var one [1]byte
			if _, err := io.ReadFull(r, one[:]); err != nil || one[0] != data[offset] {
				t.Errorf("%s: at %d: %v, %v", name, offset, one, err)
			}
			r.Close()
			if n := b.read.Load(); n > 256<<10 {
				t.Errorf("%s: at %d: %d bytes read for one", name, offset, n)
			}
		}
	}
}

// A bit that flips after a check, also after one by an earlier reader, is found before a byte of its piece is returned.
// The blob is quarantined.
func TestDamageAfterTheCheck(t *testing.T) {
	data, d := random(200_000, 1)
	for _, at := range []int{0, 1, 65_535, 65_536, 70_000, 131_071, 131_072, 167_231, 167_232, 199_999} {
		for _, from := range []int{0, 1, 100_000, 199_000} {
			for _, early := range []bool{true, false} {
				f := with(t, -1, data, d)
				b := &metered{}
				f.change(t, func(s *store.Config) { b.blobs, s.Blobs = s.Blobs, b })
				if err := f.Check(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				r := f.mustOpenBlob(t, d, len(data))
				seek(t, r, int64(from))
				if !early {
					if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
				b.data = flip(data, at)
				seek(t, r, int64(from))
				got, err := io.ReadAll(r)
				if !bytes.HasPrefix(data[from:], got) {
					t.Errorf("byte %d damaged, read from %d: other bytes, and %v", at, from, err)
				}
				whole := len(got) == len(data)-from
				if whole != (err == nil) || !whole && !errors.Is(err, store.ErrDamaged) || early && whole && at >= from {
					t.Errorf("byte %d damaged, read from %d: %d bytes, %v", at, from, len(got), err)
				}
				if aside := len(f.storage.Evidence()); (aside == 1) != (err != nil) {
					t.Errorf("byte %d damaged, read from %d: %d set aside, %v", at, from, aside, err)
				}
				r.Close()
			}
		}
	}
}
