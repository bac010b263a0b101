package app

import (
	"context"

	"github.com/modproxy/modproxy"
)

// readOnly is Next above a data directory that is read-only. What is fetched could not be recorded, and might
// be another the next time: nothing is. What versions there are is asked all the same.
type readOnly struct {
	Next modproxy.Registry
	Why  error
}

var _ modproxy.Registry = (*readOnly)(nil)

// Versions is Next's answer.
func (r *readOnly) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location is [modproxy.NoSpace].
func (r *readOnly) Location(context.Context, modproxy.ModuleVersion) (modproxy.Location, error) {
	return modproxy.Location{}, &modproxy.NoSpace{Err: r.Why}
}

// Package is [modproxy.NoSpace].
func (r *readOnly) Package(context.Context, modproxy.ModuleVersion) (*modproxy.Package, error) {
	return nil, &modproxy.NoSpace{Err: r.Why}
}
