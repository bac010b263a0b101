// Package rewrite makes the locations of modules point at this proxy.
//
//	r := &rewrite.Registry{Next: next}
//	path := rewrite.PackagePath(v)
//	v, err := rewrite.ParsePackagePath(path)
//
// Invariant: one version of one module has one package path, and every package path names one version of one module. The path
// ends in .tar.gz and has neither query nor glob: every client accepts this form. No path has a hostname followed by / or :,
// after which some tools expect a repository of that host.
//
// [PackagePath] specifies the path.
package rewrite

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Registry returns the results of Next, but with locations at this proxy: paths from its root. Clients resolve them against
// the URL of their request (internal/registry/client.go of both clients). Locations of providers are unchanged.
type Registry struct {
	Next modproxy.Registry
	// Base is the value of the [modproxy.BaseVariant] that clients receive. If it is empty, clients receive versions without
	// a variant, and no variant of a module.
	Base string
}

// Versions returns the result of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns the location of the package at this proxy, with the subdirectory of Next's location. It leaves out a glob
// pattern: the root of the package is the directory that the pattern matches.
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

// Package returns the result of Next. Without Base, it returns [modproxy.ErrNotFound] for variants of modules.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if v.IsModuleVariant() && r.Base == "" {
		err := fmt.Errorf("%w: nested sources are not rewritten here any more: install again", modproxy.ErrNotFound)
		return nil, modproxy.Wrap("package", v, err)
	}
	return r.Next.Package(ctx, v)
}

// PackagePath returns the path at which the proxy serves a version, from the root and escaped for a URL:
//
//	/{host}~{port}/v1/modules/{namespace}/{name}/{system}/{version}/{name}-{system}-{version}.tar.gz
//
// The port is empty for a host without a port. The address must be valid and the version canonical.
func PackagePath(v modproxy.Ref) string {
	host, port, _ := strings.Cut(v.Host, ":")
	version := v.FullVersion()
	return "/" + host + "~" + port + "/v1/modules/" + v.Namespace + "/" + v.Name + "/" + v.System + "/" + version +
		"/" + v.Name + "-" + v.System + "-" + version + ".tar.gz"
}

const wantPath = "want /{host}~/v1/modules/{namespace}/{name}/{system}/{version}/{name}-{system}-{version}.tar.gz"

// ParsePackagePath is the inverse of [PackagePath]. It accepts only the spelling of PackagePath, except that characters may
// be percent-encoded needlessly. Errors wrap [modproxy.ErrInvalid], and do not repeat the path.
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
