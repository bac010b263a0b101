// Package rewrite is a registry whose locations point at this proxy.
//
// Invariant: one version of one module has one package path, and every package path names one version of one module.
// The path ends in .tar.gz and has neither query nor glob, which is the one form that every client takes. In no path is a
// hostname followed by / or :, behind which some tools look for a repository of that host.
package rewrite

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Registry answers like Next, but with locations at this proxy: paths from its root, which clients resolve against the URL
// that they asked (internal/registry/client.go of both clients). About providers it answers like Next.
type Registry struct {
	Next modproxy.Registry
	// Base is the value of the [modproxy.BaseVariant] that clients are served. If it is empty, they are served versions without a
	// variant, and no variant of a module.
	Base string
}

// Versions returns the answer of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns where this proxy serves the package, with the subdirectory of Next's location. A glob is left out: the
// root of the package is what it matches.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	l, err := r.Next.Location(ctx, v)
	if err != nil || v.IsProvider() {
		return l, err
	}
	_, subdir := l.SplitGlob()
	if r.Base != "" {
		v = v.With(modproxy.BaseVariant, r.Base)
	}
	return modproxy.Location{URL: PackagePath(v), Subdir: subdir, Kept: l.Kept}, nil
}

// Package returns the answer of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if v.IsModuleVariant() && r.Base == "" {
		err := fmt.Errorf("%w: nested sources are not rewritten here any more: install again", modproxy.ErrNotFound)
		return nil, modproxy.Wrap("package", v, err)
	}
	return r.Next.Package(ctx, v)
}

// PackagePath returns the path at which the proxy serves a version, from the root and escaped as a URL wants it:
//
//	/{host}~{port}/v1/modules/{namespace}/{name}/{system}/{version}/{name}-{system}-{version}.tar.gz
//
// The port is empty for a host without one. The module was checked and the version is canonical.
func PackagePath(v modproxy.Ref) string {
	host, port, _ := strings.Cut(v.Host, ":")
	version := v.FullVersion()
	return "/" + host + "~" + port + "/v1/modules/" + v.Namespace + "/" + v.Name + "/" + v.System + "/" + version +
		"/" + v.Name + "-" + v.System + "-" + version + ".tar.gz"
}

const wantPath = "want /{host}~/v1/modules/{namespace}/{name}/{system}/{version}/{name}-{system}-{version}.tar.gz"

// ParsePackagePath is the inverse of [PackagePath]. It accepts only the spelling of PackagePath, except that characters
// may be percent-encoded needlessly. Its error is [modproxy.ErrInvalid].
//
// Its errors do not repeat the path.
func ParsePackagePath(escaped string) (modproxy.Ref, error) {
	bad := func(why string) (modproxy.Ref, error) {
		return modproxy.Ref{}, fmt.Errorf("%w: package path: %s", modproxy.ErrInvalid, why)
	}
	parts := strings.Split(escaped, "/")
	if len(parts) != 9 {
		return bad(wantPath)
	}
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return bad("bad percent-encoding")
		}
	}
	host, port, _ := strings.Cut(parts[1], "~")
	if port != "" {
		host += ":" + port
	}
	if normal, err := hostname.Parse(hostname.Display(host)); err != nil || host != normal {
		return bad("the hostname is not in its normal spelling")
	}
	v := modproxy.Address{Host: host, Namespace: parts[4], Name: parts[5], System: parts[6]}.At(parts[7])
	if v.Check() != nil {
		return bad("the module address or the version is not valid")
	}
	if canonical, err := modproxy.CanonicalVersion(parts[7]); err != nil || canonical != parts[7] {
		return bad("the version is not in its canonical spelling")
	}
	if path := PackagePath(v); escaped != path && strings.Join(parts, "/") != path {
		return bad(wantPath)
	}
	return v, nil
}
