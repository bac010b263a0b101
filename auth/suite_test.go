package auth_test

import (
	"context"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/test/registrytest"
)

// anybody sends requests to a registry as a principal that may read all of it.
type anybody struct{ next modproxy.Registry }

func (a anybody) with(ctx context.Context) context.Context {
	all, err := auth.ParseScope("*")
	if err != nil {
		panic(err)
	}
	return auth.WithPrincipal(ctx, auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: []auth.Scope{all}}})
}

func (a anybody) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return a.next.Versions(a.with(ctx), m)
}

func (a anybody) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return a.next.Location(a.with(ctx), v)
}

func (a anybody) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return a.next.Package(a.with(ctx), v)
}

func TestRegistry(t *testing.T) {
	const host = "registry.example.com"
	registrytest.TestRegistry(t, host, func(t testing.TB) modproxy.Registry {
		next, err := registrytest.NewMemory(host, registrytest.Modules())
		if err != nil {
			t.Fatal(err)
		}
		return anybody{&auth.Registry{Next: next}}
	})
}
