package cache_test

import (
	"errors"
	"io"
	"testing"

	"github.com/modproxy/modproxy/cache"
)

// Who has found a package damaged and asks for it again waits until it has been
// fetched again, and is not given the damaged one a second time.
func TestWhoFoundDamageGetsWhatIsMended(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			store, n, blob := kept(t)
			r := &cache.Registry{Next: n, Index: store, Blobs: store, Memory: -1}
			defer mustClose(t, r)
			p, err := r.Package(t.Context(), vpc.At("1.0.0")) // it is looked at and all is well
			if err != nil {
				t.Fatal(err)
			}
			p.Close()
			if err := damage(blob, n.content); err != nil {
				t.Fatal(err)
			}
			for round := 1; ; round++ {
				p, err := r.Package(t.Context(), vpc.At("1.0.0"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(p)
				p.Close()
				if err == nil && string(got) == string(n.content) {
					return
				}
				if !errors.Is(err, cache.ErrDamaged) || round == 2 {
					t.Fatalf("round %d: %d bytes, %v", round, len(got), err)
				}
			}
		})
	}
}
