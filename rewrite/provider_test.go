package rewrite_test

import (
	"context"
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/rewrite"
)

// echo is a registry whose results contain the requested version.
type echo struct{ modproxy.Registry }

func (echo) Location(_ context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{URL: v.String()}, nil
}

func (echo) Package(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return &modproxy.Package{Notes: v.String()}, nil
}

// The locations of a provider's packages are unchanged, whether sources of modules are rewritten or not.
func TestProvider(t *testing.T) {
	toy := modproxy.NewProvider("registry.example", "acme", "toy").At("1.0.0")
	for _, at := range []string{"", "0123456789abcdef"} {
		r := &rewrite.Registry{Next: echo{}, Base: at}
		for _, v := range []modproxy.Ref{toy, toy.ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"})} {
			l, err := r.Location(t.Context(), v)
			if err != nil || l.URL != v.String() {
				t.Errorf("%q: location %v, %v", at, l, err)
			}
			p, err := r.Package(t.Context(), v)
			if err != nil || p.Notes != v.String() {
				t.Errorf("%q: package %v, %v", at, p, err)
			}
		}
		made := modproxy.Address{Host: toy.Host, Namespace: "acme", Name: "toy", System: "aws"}.At("1.0.0").With(modproxy.UnknownVariant, "other")
		if _, err := r.Package(t.Context(), made); (at == "") != errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("%q: %v: %v", at, made, err)
		}
	}
}
