// Package rewrite makes the locations of modules point at this proxy.
//
//	r := &rewrite.Registry{Next: next}
//
// Invariant: with one Base, each version of a module has one location, and every such location names one version of one module.
// Locations with another Base, or without one, name the same version; the Next of each Registry decides what it serves at them.
//
// Package rewrite changes locations only. Package nested rewrites the sources in packages, and uses Base. [protocol.Request.Path]
// specifies the path.
package rewrite

import (
	"context"
	"fmt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/protocol"
)

// Registry returns the results of Next, but with locations at this proxy: paths from its root, which package proxy makes absolute for
// clients. Locations of providers are unchanged. A Registry is safe for concurrent use.
type Registry struct {
	Next modproxy.Registry
	// Base is the value of the [modproxy.BaseVariant] in the locations, which nested.Base returns. If it is empty, sources in packages are
	// not rewritten: locations have no variant, and Package refuses all variants of modules.
	Base string
}

// Versions returns the result of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location asks Next, and returns the location of the package at this proxy, with the subdirectory of Next's location. It leaves out a
// glob pattern ([modproxy.Location.SplitGlob]): the root of the package is the directory that the pattern matches. Errors are those of
// Next.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	l, err := r.Next.Location(ctx, v)
	if err != nil || !v.IsModule() {
		return l, err
	}
	_, subdir := l.SplitGlob()
	if r.Base != "" {
		v = v.With(modproxy.BaseVariant, r.Base)
	}
	return modproxy.Location{URL: protocol.Request{Kind: protocol.KindPackage, Ref: v}.Path(), Subdir: subdir, Kept: l.Kept}, nil
}

// Package returns the result of Next. Without Base, it returns [modproxy.ErrNotFound] for variants of modules.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if v.IsModuleVariant() && r.Base == "" {
		err := fmt.Errorf("%w: nested sources are not rewritten here any more: install again", modproxy.ErrNotFound)
		return nil, modproxy.Wrap("package", v, err)
	}
	return r.Next.Package(ctx, v)
}
