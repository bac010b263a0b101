package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/release"
)

const (
	maxReleases = 256      // that are remembered
	maxRelease  = 64 << 10 // bytes of one that is remembered
)

// opened is a release that was opened. It is not changed.
type opened struct {
	*release.Release
	digest modproxy.Digest
	blank  error // a [*release.BlankLine], at which clients crash
}

// release returns the release of a version of a provider. Opening one takes longer than everything else about it.
func (h *Handler) release(ctx context.Context, v modproxy.ModuleVersion) (*opened, error) {
	p, err := h.cfg.Registry.Package(ctx, v)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if o, ok := h.releases.Get(p.Digest); ok {
		return o, nil
	}
	r, err := release.Open(p)
	if err != nil {
		return nil, &modproxy.Error{Op: "package", Module: v.Module, Version: v.Version, Err: err}
	}
	o := &opened{Release: r, digest: p.Digest}
	_, err = release.ParseSums(r.Sums)
	if line := (*release.BlankLine)(nil); errors.As(err, &line) {
		o.blank = line
	}
	if p.Size <= maxRelease/2 {
		h.releases.Add(p.Digest, o)
	}
	return o, nil
}

// archive returns the release of v and its package for a platform.
func (h *Handler) archive(ctx context.Context, v modproxy.ModuleVersion, p modproxy.Platform) (*opened, release.Archive, error) {
	o, err := h.release(ctx, v)
	if err != nil {
		return nil, release.Archive{}, err
	}
	i := slices.IndexFunc(o.Archives, func(a release.Archive) bool { return a.Platform == p })
	if i < 0 {
		return nil, release.Archive{}, fmt.Errorf("%w: %s has no package for %s", modproxy.ErrNotFound, v, p)
	}
	return o, o.Archives[i], nil
}

// lists reports whether the versions document has v for a platform.
func (h *Handler) lists(ctx context.Context, v modproxy.ModuleVersion, p modproxy.Platform) bool {
	list, err := h.cfg.Registry.Versions(ctx, v.Module)
	if err != nil {
		return false
	}
	listed, ok := list.Find(v.Version)
	return ok && slices.Contains(listed.Release().Platforms, p)
}
