package catalog_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// The number of descriptions in memory depends on their sizes.
func TestDetailsInMemory(t *testing.T) {
	for readme, again := range map[string]bool{"": false, strings.Repeat("x", 8<<20): true} {
		s := (&site{err: modproxy.ErrNotFound, readme: readme}).with("1.0.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0")
		c := newCatalog(s)
		for _, version := range s.versions[network] {
			s.held[network.At(version)] = true
			if _, err := c.Details(t.Context(), network.At(version)); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC() // only remembered descriptions stay
		if _, err := c.Details(t.Context(), network.At("1.0.0")); err != nil || (s.described == 6) != again {
			t.Errorf("with a README of %d bytes, %d packages were read: %v", len(readme), s.described, err)
		}
	}
}
