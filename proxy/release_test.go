package proxy

import (
	"testing"

	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/release"
)

// The releases in memory are bounded by their bytes, unpacked.
func TestReleases(t *testing.T) {
	h := New(Config{})
	add := func(number byte, size int) {
		o := &opened{Release: &release.Release{Sums: make([]byte, size)}}
		o.digest[0] = number
		h.releases.GetOrAdd(o.digest, o, memory.Forever, o.size())
	}
	known := func() (n int) {
		o := &opened{}
		for i := range 256 {
			o.digest[0] = byte(i)
			if _, ok := h.releases.Peek(o.digest); ok {
				n++
			}
		}
		return n
	}
	for i := range 100 {
		add(byte(i), 1<<20)
		add(byte(i), 1<<20)
	}
	if n := known(); n != maxReleaseBytes>>20 {
		t.Errorf("%d releases are in memory", n)
	}
	add(200, maxReleaseBytes+1)
	if _, ok := h.releases.Peek((&opened{digest: [32]byte{200}}).digest); ok {
		t.Error("a release that is too large is in memory")
	}
}
