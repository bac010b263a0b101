package cache_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/modproxy/modproxy/cache"
)

// A part of a large package is read after all of it was checked. What changes on
// the disk between the two is noticed before a byte of it is given.
func TestDamageAfterTheCheck(t *testing.T) {
	for at := 0; at < 200_000; at += 9_999 {
		for _, from := range []int64{0, 1, 100_000, 199_000} {
			store, n, blob := kept(t)
			r := &cache.Registry{Next: n, Index: store, Blobs: store, Memory: -1}
			p, err := r.Package(t.Context(), vpc.At("1.0.0"))
			if err != nil {
				t.Fatal(err)
			}
			var first [1]byte
			for _, offset := range []int64{from, from} { // twice: a part is wanted
				if _, err := p.Seek(offset, io.SeekStart); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := io.ReadFull(p, first[:]); err != nil || first[0] != n.content[from] {
				t.Fatalf("before the damage: %q, %v", first, err)
			}
			overwrite(t, blob, int64(at), n.content[at]^0x10)
			if _, err := p.Seek(from, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(p)
			if !bytes.HasPrefix(n.content[from:], got) {
				t.Errorf("byte %d damaged, read from %d: other bytes, and %v", at, from, err)
			}
			if whole := len(got) == len(n.content)-int(from); !whole && !errors.Is(err, cache.ErrDamaged) || whole && err != nil {
				t.Errorf("byte %d damaged, read from %d: %d bytes, %v", at, from, len(got), err)
			}
			p.Close()
			mustClose(t, r)
		}
	}
}

// overwrite changes a byte of a file where it is.
func overwrite(t *testing.T, name string, at int64, b byte) {
	t.Helper()
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{b}, at); err != nil {
		t.Fatal(err)
	}
}
