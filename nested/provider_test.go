package nested_test

import (
	"context"
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/nested"
)

// keepsNothing is a cache that stores nothing.
type keepsNothing struct{ *nested.Sources }

func (keepsNothing) Exists(context.Context, modproxy.Ref) (bool, error) { return false, nil }

func (keepsNothing) Keep(context.Context, modproxy.Ref, *modproxy.Package) error {
	return nil
}

// echo answers each request with the requested version.
type echo struct{ nested.Upstream }

func (echo) Location(_ context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{URL: v.String()}, nil
}

func (echo) Package(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return &modproxy.Package{Notes: v.String()}, nil
}

func (echo) PackageAt(_ context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	return &modproxy.Package{Notes: rec.Ref.String()}, nil
}

func (echo) Commit(_ context.Context, v modproxy.Ref) (string, error) {
	return v.String(), nil
}

// Requests for packages of providers go to the registry, not to Sources.
func TestProvider(t *testing.T) {
	toy := modproxy.NewProvider("registry.example", "acme", "toy").At("1.0.0")
	sources := nested.NewSources(echo{}, nil)
	for _, v := range []modproxy.Ref{toy, toy.ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"})} {
		for _, r := range []modproxy.Registry{sources, nested.New(nested.Config{Next: keepsNothing{sources}})} {
			l, err := r.Location(t.Context(), v)
			if err != nil || l.URL != v.String() {
				t.Errorf("%T: location %v, %v", r, l, err)
			}
			p, err := r.Package(t.Context(), v)
			if err != nil || p.Notes != v.String() {
				t.Errorf("%T: package %v, %v", r, p, err)
			}
		}
		p, err := sources.PackageAt(t.Context(), modproxy.Record{Ref: v})
		if err != nil || p.Notes != v.String() {
			t.Errorf("package %v, %v", p, err)
		}
		if commit, err := sources.Commit(t.Context(), v); err != nil || commit != v.String() {
			t.Errorf("commit %q, %v", commit, err)
		}
	}
	made := modproxy.Address{Host: toy.Host, Namespace: "acme", Name: "toy", System: "aws"}.At("1.0.0").With(modproxy.UnknownVariant, "other")
	if _, err := sources.Package(t.Context(), made); !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("%v: %v", made, err)
	}
}
