package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/release"
)

const (
	maxReleases     = 4 << 10  // releases in memory
	maxReleaseBytes = 16 << 20 // bytes of these
)

// openRelease is a release that was read from its package. It is not changed.
type openRelease struct {
	*release.Release
	digest    modproxy.Digest
	blankLine error // a [*release.BlankLine], at which clients crash
}

// release returns the release of a version of a provider. It remembers releases: opening one takes longer than the rest of an answer.
func (h *Handler) release(ctx context.Context, v modproxy.Ref) (*openRelease, error) {
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
		return nil, modproxy.Wrap("package", v, err)
	}
	o := &openRelease{Release: r, digest: p.Digest}
	_, err = release.ParseSums(r.Sums)
	if line := (*release.BlankLine)(nil); errors.As(err, &line) {
		o.blankLine = line
	}
	return h.releases.GetOrAdd(o.digest, o, memory.Forever, o.size()), nil
}

// size returns about how many bytes o has.
func (o *openRelease) size() int64 {
	n := len(o.Sums) + len(o.Signature) + 256*len(o.Archives)
	for _, a := range o.Archives {
		n += len(a.File) + len(a.URL)
	}
	for _, k := range o.Keys {
		n += len(k.ID) + len(k.Armor) + len(k.TrustSignature) + len(k.Source) + len(k.SourceURL)
	}
	for _, f := range o.Packages {
		n += 256 + len(strings.Join(f.Hashes, ""))
	}
	return int64(n)
}

// archive returns the release of v and its package for a platform.
func (h *Handler) archive(ctx context.Context, v modproxy.Ref, p modproxy.Platform) (*openRelease, release.Archive, error) {
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

// listed returns the platforms that the versions document has for v.
func (h *Handler) listed(ctx context.Context, v modproxy.Ref) []modproxy.Platform {
	list, err := h.cfg.Registry.Versions(ctx, v.Address)
	if err != nil {
		return nil
	}
	l, _ := list.Find(v.Version)
	return l.Release().Platforms
}
