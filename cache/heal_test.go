package cache_test

import (
	"errors"
	"io"
	"testing"

	"github.com/modproxy/modproxy/store"
)

// A client that has found a package damaged, and asks again, gets the package that was downloaded again.
func TestDamageIsFoundOnce(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			r := d.registry(-1, d.next)
			defer mustClose(t, r)
			p, err := r.Package(t.Context(), vpc.At("1.0.0")) // it is looked at and all is well
			if err != nil {
				t.Fatal(err)
			}
			p.Close()
			if err := damage(d.blob, d.content); err != nil {
				t.Fatal(err)
			}
			for round := 1; ; round++ {
				p, err := r.Package(t.Context(), vpc.At("1.0.0"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(p)
				p.Close()
				if err == nil && string(got) == string(d.content) {
					return
				}
				if !errors.Is(err, store.ErrDamaged) || round == 2 {
					t.Fatalf("round %d: %d bytes, %v", round, len(got), err)
				}
			}
		})
	}
}
