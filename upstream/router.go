package upstream

import (
	"context"
	"time"

	"github.com/modproxy/modproxy"
)

// Registry is a registry that knows the commits and dates of its versions. A [Client] is one.
type Registry interface {
	modproxy.Registry
	PackageAt(ctx context.Context, v modproxy.ModuleVersion, commit string) (*modproxy.Package, error)
	Commit(ctx context.Context, v modproxy.ModuleVersion) (string, error)
	Published(ctx context.Context, m modproxy.Module, versions []string) (map[string]time.Time, error)
}

// Router is the registry of all hosts: it passes each question to the one of the module's host. It is the seam for a
// registry of another kind, which answers for a host itself.
type Router struct {
	Hosts   map[string]Registry // by normalised hostname
	Default Registry            // of all other hosts
}

var _ Registry = (*Router)(nil)

func (r *Router) of(m modproxy.Module) Registry {
	if registry, ok := r.Hosts[m.Host]; ok {
		return registry
	}
	return r.Default
}

// Versions implements [modproxy.Registry].
func (r *Router) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	return r.of(m).Versions(ctx, m)
}

// Location implements [modproxy.Registry].
func (r *Router) Location(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Location, error) {
	return r.of(v.Module).Location(ctx, v)
}

// Package implements [modproxy.Registry].
func (r *Router) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	return r.of(v.Module).Package(ctx, v)
}

// PackageAt implements [Registry].
func (r *Router) PackageAt(ctx context.Context, v modproxy.ModuleVersion, commit string) (*modproxy.Package, error) {
	return r.of(v.Module).PackageAt(ctx, v, commit)
}

// Commit implements [Registry].
func (r *Router) Commit(ctx context.Context, v modproxy.ModuleVersion) (string, error) {
	return r.of(v.Module).Commit(ctx, v)
}

// Published implements [Registry].
func (r *Router) Published(ctx context.Context, m modproxy.Module, versions []string) (map[string]time.Time, error) {
	return r.of(m).Published(ctx, m, versions)
}
