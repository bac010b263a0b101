package auth

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Registry answers like Next, to whom the context says asks (see [WithPrincipal]).
// A module that they may not read is not there, and Next is not asked. A context
// that says of nobody is refused.
type Registry struct {
	Next modproxy.Registry
}

// Versions answers what Next answers.
func (r *Registry) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	if err := mayRead(ctx, "versions", m, ""); err != nil {
		return nil, err
	}
	return r.Next.Versions(ctx, m)
}

// Location answers what Next answers.
func (r *Registry) Location(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Location, error) {
	m, version := v.Module, v.Version
	if err := mayRead(ctx, "location", m, version); err != nil {
		return modproxy.Location{}, err
	}
	return r.Next.Location(ctx, m.At(version))
}

// Package answers what Next answers.
func (r *Registry) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	m, version := v.Module, v.Version
	if err := mayRead(ctx, "package", m, version); err != nil {
		return nil, err
	}
	return r.Next.Package(ctx, m.At(version))
}

func mayRead(ctx context.Context, op string, m modproxy.Module, version string) error {
	p := PrincipalOf(ctx)
	switch {
	case p.Kind == Nobody:
		return &Refused{"the request says of nobody"}
	case !p.MayRead(m):
		return &modproxy.Error{Op: op, Module: m, Version: version, Err: modproxy.ErrNotFound}
	}
	return nil
}
