package modproxy_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/registrytest"
)

// frozen is a layer: a Registry made from a Registry. It denies every version but one.
type frozen struct {
	Next    modproxy.Registry
	Version string
}

// Versions returns the result of Next.
func (f frozen) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return f.Next.Versions(ctx, m)
}

// Location returns the result of Next, or [modproxy.ErrDenied].
func (f frozen) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	if v.Version != f.Version {
		return modproxy.Location{}, &modproxy.Error{Op: "location", Ref: v, Err: modproxy.ErrDenied}
	}
	return f.Next.Location(ctx, v)
}

// Package returns the result of Next, or [modproxy.ErrDenied].
func (f frozen) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if v.Version != f.Version {
		return nil, &modproxy.Error{Op: "package", Ref: v, Err: modproxy.ErrDenied}
	}
	return f.Next.Package(ctx, v)
}

// A Registry made from a Registry has the same methods as the one below it.
func ExampleRegistry() {
	next, err := registrytest.NewMemory("registry.example.com", registrytest.Modules())
	if err != nil {
		log.Fatal(err)
	}
	var registry modproxy.Registry = frozen{Next: next, Version: "1.0.0"}

	ctx := context.Background()
	m := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "network", System: "aws"}
	p, err := registry.Package(ctx, m.At("1.0.0"))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	fmt.Println(p.Sum)
	_, err = registry.Package(ctx, m.At("1.1.0"))
	fmt.Println(errors.Is(err, modproxy.ErrDenied), err)
	// Output:
	// h1:Wl9oG+8nTR+Lfvbq7IWF8AVY7+jIg7WfHAn7WyS5gCU=
	// true package registry.example.com/acme/network/aws 1.1.0: denied
}
