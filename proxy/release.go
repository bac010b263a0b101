package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/modproxy/modproxy"
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
	h.releases.add(o)
	return o, nil
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

// releases has recently used releases by their digests. It is safe for concurrent use.
type releases struct {
	*lru.Cache[modproxy.Digest, *openRelease]
	bytes atomic.Int64
}

func newReleases() *releases {
	r := &releases{}
	forget := func(_ modproxy.Digest, o *openRelease) { r.bytes.Add(-o.size()) }
	r.Cache, _ = lru.NewWithEvict(maxReleases, forget) // its error is about the size
	return r
}

// add adds o, and removes the least recently used releases beyond the bounds.
func (r *releases) add(o *openRelease) {
	if known, _ := r.ContainsOrAdd(o.digest, o); known {
		return
	}
	for n := r.bytes.Add(o.size()); n > maxReleaseBytes && r.Len() > 0; n = r.bytes.Load() {
		r.RemoveOldest()
	}
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
