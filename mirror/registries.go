package mirror

import (
	"context"

	"github.com/modproxy/modproxy"
)

// recordingRegistry records the answers of next.
type recordingRegistry struct {
	next     modproxy.Registry
	progress *progress
	out      *output
}

// Versions implements [modproxy.Registry].
func (r recordingRegistry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := r.next.Versions(ctx, m)
	r.progress.requested(m, err == nil)
	return v, err
}

// Location implements [modproxy.Registry].
func (r recordingRegistry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return r.next.Location(ctx, v)
}

// Package implements [modproxy.Registry].
func (r recordingRegistry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.next.Package(ctx, v)
	if err == nil {
		r.out.record(v, p)
	}
	return p, err
}

// nestedRegistry returns the packages of modules when their nested sources are cached, too.
type nestedRegistry struct {
	next   modproxy.Registry
	nested Nested
}

// Versions implements [modproxy.Registry].
func (r nestedRegistry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.next.Versions(ctx, m)
}

// Location implements [modproxy.Registry].
func (r nestedRegistry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return r.next.Location(ctx, v)
}

// Package implements [modproxy.Registry].
func (r nestedRegistry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.next.Package(ctx, v)
	if err != nil || !v.IsListed() || !v.IsModule() {
		return p, err
	}
	if err := r.nested.Bring(ctx, v); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}
