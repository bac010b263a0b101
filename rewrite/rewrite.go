// Package rewrite is a registry whose locations point at this proxy.
//
// Invariant: one version of one module has one package path, and every package path names one version of one module:
// [PackagePath] and [ParsePackagePath] are each other's inverse. The path ends in .tar.gz and has neither query nor glob,
// which is the one form that every client takes.
package rewrite

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Registry answers like Next, but with locations at this proxy: paths from its root, which clients resolve against the URL
// that they asked (internal/registry/client.go of both clients).
type Registry struct {
	Next modproxy.Registry
}

// Versions returns the answer of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns where this proxy serves the package, with the subdirectory of Next's location. A glob is left out: the
// root of the package is what it matches.
func (r *Registry) Location(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Location, error) {
	l, err := r.Next.Location(ctx, v)
	if err != nil {
		return modproxy.Location{}, err
	}
	_, subdir := l.SplitGlob()
	return modproxy.Location{URL: PackagePath(v), Subdir: subdir, Kept: l.Kept}, nil
}

// Package returns the answer of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	return r.Next.Package(ctx, v)
}
