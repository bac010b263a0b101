package bundle_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
)

// If another bundle is copied over the one that is served, none of its bytes are served, even for packages that were verified before.
func TestRegistryFileChanges(t *testing.T) {
	a := newSide(t)
	a.keep(network.At("1.0.0"), "one")
	file := a.export(nil)
	r, err := bundle.Open(bytes.NewReader(file), int64(len(file)), a.trust(a), bundle.Releases{Unsigned: all{}})
	must(t, err)
	open := func() *modproxy.Package {
		p, err := r.Package(t.Context(), network.At("1.0.0"))
		must(t, err)
		return p
	}
	before := open()
	good, err := io.ReadAll(open())
	if err != nil || sha256.Sum256(good) != before.Digest {
		t.Fatalf("%d bytes, %v", len(good), err)
	}
	at := bytes.Index(file, good)
	file[at+len(good)/2] ^= 1
	for name, p := range map[string]*modproxy.Package{"before": before, "after": open()} {
		if got, err := io.ReadAll(p); !errors.Is(err, modproxy.ErrUnavailable) || int64(len(got)) == p.Size {
			t.Errorf("opened %s the change: %d bytes, %v", name, len(got), err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
