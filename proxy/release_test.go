package proxy

import (
	"testing"

	"github.com/modproxy/modproxy/release"
)

// The bytes of the releases in memory have a bound, which counts them unpacked.
func TestReleases(t *testing.T) {
	r := newReleases()
	for i := range 100 {
		o := &openRelease{Release: &release.Release{Sums: make([]byte, 1<<20)}}
		o.digest[0] = byte(i)
		r.add(o)
		r.add(o)
	}
	if n := r.Len(); n != maxReleaseBytes>>20 || r.bytes.Load() != int64(n)<<20 {
		t.Errorf("%d releases are remembered, which are said to have %d bytes", n, r.bytes.Load())
	}
	large := &openRelease{Release: &release.Release{Sums: make([]byte, maxReleaseBytes+1)}}
	large.digest[0] = 200
	if r.add(large); r.Len() != 0 || r.bytes.Load() != 0 {
		t.Errorf("one that is too large: %d releases, %d bytes", r.Len(), r.bytes.Load())
	}
}
