package proxy

import (
	"testing"

	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/release"
)

// The bytes of the releases in memory have a bound, which counts them unpacked.
func TestReleases(t *testing.T) {
	h := New(Config{})
	add := func(number byte, size int) {
		o := &openRelease{Release: &release.Release{Sums: make([]byte, size)}}
		o.digest[0] = number
		h.releases.GetOrAdd(o.digest, o, memory.Forever, o.size())
	}
	known := func() (n int) {
		o := &openRelease{}
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
	if _, ok := h.releases.Peek((&openRelease{digest: [32]byte{200}}).digest); ok {
		t.Error("a release that is too large is in memory")
	}
}
