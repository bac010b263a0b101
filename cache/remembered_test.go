package cache_test

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

// metered are blobs of which is counted what is read.
type metered struct {
	cache.Blobs
	read atomic.Int64
}

type meteredBlob struct {
	cache.Blob
	of *metered
}

func (b *metered) Open(d modproxy.Digest) (cache.Blob, error) {
	blob, err := b.Blobs.Open(d)
	return meteredBlob{blob, b}, err
}

func (b meteredBlob) Read(p []byte) (int, error) {
	n, err := b.Blob.Read(p)
	b.of.read.Add(int64(n))
	return n, err
}

// What was read as a whole, in whatever way, is not read as a whole again for a part.
func TestPartsOfWhatWasChecked(t *testing.T) {
	const size = 10<<20 + 17
	for name, whole := range map[string]func(p *modproxy.Package) error{
		"streamed": func(p *modproxy.Package) error { _, err := io.Copy(io.Discard, p); return err },
		"a part": func(p *modproxy.Package) error {
			_, err := p.Seek(-1, io.SeekEnd)
			return errors.Join(err, readOne(p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.next.content, _ = cachetest.Bytes(size, 1)
			b := &metered{Blobs: f.blobs}
			f.Registry.Blobs, f.Registry.Memory = b, -1
			p, err := f.Package(t.Context(), vpc.At("1.0.0"))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(whole(p), p.Close()); err != nil {
				t.Fatal(err)
			}
			for _, offset := range []int64{0, 1, 128 << 10, 5 << 20, 10 << 20, size - 32<<10 - 1, size - 32<<10, size - 1} {
				b.read.Store(0)
				p, err := f.Package(t.Context(), vpc.At("1.0.0"))
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if _, err := p.Seek(offset, io.SeekStart); err != nil {
						t.Fatal(err)
					}
				}
				var one [1]byte
				if _, err := io.ReadFull(p, one[:]); err != nil || one[0] != f.next.content[offset] {
					t.Errorf("at %d: %v, %v", offset, one, err)
				}
				p.Close()
				if n := b.read.Load(); n > 256<<10 {
					t.Errorf("at %d: %d bytes read for one", offset, n)
				}
			}
		})
	}
}

func readOne(p io.Reader) error {
	_, err := io.ReadFull(p, make([]byte, 1))
	return err
}

// A bit that flips on the disk after the check is found before a byte of the piece is
// given that it is in, and the package is fetched again.
func TestDamageUnderWhatIsRemembered(t *testing.T) {
	for _, at := range []int{0, 1, 70_000, 131_071, 131_072, 167_231, 167_232, 199_999} {
		store, n, blob := kept(t)
		r := &cache.Registry{Next: n, Index: store, Blobs: store, Memory: -1}
		if _, err := read(r, "1.0.0"); err != nil {
			t.Fatal(err)
		}
		overwrite(t, blob, int64(at), n.content[at]^0x10)
		p, err := r.Package(t.Context(), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		from := max(0, at-10)
		if _, err := p.Seek(int64(from), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Seek(int64(from), io.SeekStart); err != nil { // twice: a part is wanted
			t.Fatal(err)
		}
		got, err := io.ReadAll(p)
		if !errors.Is(err, cache.ErrDamaged) || !bytes.HasPrefix(n.content[from:], got) || from+len(got) > at {
			t.Errorf("byte %d damaged: %d bytes from %d, %v", at, len(got), from, err)
		}
		p.Close()
		if got, err := read(r, "1.0.0"); !bytes.Equal(got, n.content) || err != nil {
			t.Errorf("byte %d damaged: then %d bytes, %v", at, len(got), err)
		}
		mustClose(t, r)
	}
}
