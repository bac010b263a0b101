package app

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/catalog"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/tfconfig"
)

// newDocuments returns the cache of registries' descriptions of modules and providers. Offline, registries is nil.
func (p *parts) newDocuments(registries modproxy.Catalog) *cache.Catalog {
	return cache.NewCatalog(cache.CatalogConfig{
		Next: registries, Store: p.Store, Lifetimes: p.lifetimes(), MaxKept: int64(p.config.Cache.MaxVersions), Observer: p,
	})
}

// describe adds the catalog of packages to l, within the scopes of clients. known lists the versions that are known without a
// request to a registry. The policy does not report denials here, because the client installs nothing.
func (p *parts) describe(l *layers, packages modproxy.Registry, known catalog.Lister) {
	listing := &policy.Registry{Next: packages, Gate: p.gate}
	l.listing = p.authorizeSilently(listing)
	l.catalog = catalog.New(catalog.Config{
		Next: l.documents, Registry: listing, Known: known, Packages: l.Cache, Ledger: p.Ledger, FirstSeen: p.firstSeen, Counts: p.counts,
		Rules: verdicts{p.gate}, Reader: describer{p.reader},
	})
	if p.auth != nil {
		l.catalog = &auth.Catalog{Next: l.catalog, Open: p.config.IsOpen}
	}
}

// cached lists the versions that are known without a request to a registry. It has no locations and no packages.
type cached struct{ cache *cache.Registry }

// Versions returns the known versions.
func (k cached) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return k.cache.StoredVersions(ctx, m)
}

// Location returns [modproxy.ErrNotFound].
func (cached) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{}, modproxy.ErrNotFound
}

// Package returns [modproxy.ErrNotFound].
func (cached) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return nil, modproxy.ErrNotFound
}

// recorded returns the recorded first-seen times and dates. It does not request dates from registries.
type recorded struct{ *history.FirstSeen }

// Of implements [policy.FirstSeen].
func (s recorded) Of(ctx context.Context, m modproxy.Address) (modproxy.FirstSeen, error) {
	return s.Recorded(ctx, m)
}

// describer describes packages in a child process.
type describer struct{ reader *tfconfig.Reader }

// Describe implements [catalog.Reader].
func (d describer) Describe(ctx context.Context, p *modproxy.Package, of *modproxy.Details) error {
	tree := tfconfig.PackageTree(p.Digest, func() (io.ReadCloser, error) { return io.NopCloser(p), nil })
	said, err := d.reader.Describe(ctx, tree, p.Subdir)
	if err != nil {
		return err
	}
	of.Root, of.Submodules, of.Examples = said.Root, said.Submodules, said.Examples
	of.Root.Name = of.Name
	return nil
}

// verdicts implements [catalog.Rules] with a gate.
type verdicts struct{ *policy.Gate }

// CheckListed implements [catalog.Rules].
func (g verdicts) CheckListed(ctx context.Context, v modproxy.Ref, firstSeen modproxy.FirstSeen) error {
	return g.CheckClientBy(ctx, v, (*given)(&firstSeen))
}

// given implements [policy.FirstSeen] with the known times of one module.
type given modproxy.FirstSeen

// Of implements [policy.FirstSeen].
func (s *given) Of(context.Context, modproxy.Address) (modproxy.FirstSeen, error) {
	return modproxy.FirstSeen(*s), nil
}

// See implements [policy.FirstSeen]. It does nothing.
func (*given) See(context.Context, modproxy.Address, *modproxy.Versions) {}

// Deprecation implements [catalog.Rules].
func (g verdicts) Deprecation(ctx context.Context, v modproxy.Ref) (*modproxy.Deprecation, error) {
	decided, err := g.Decisions(ctx, v)
	if err != nil || decided.Deprecation == nil {
		return nil, err
	}
	return &modproxy.Deprecation{Reason: decided.Deprecation.Reason, Link: decided.Deprecation.Link}, nil
}

// bundled implements [catalog.FirstSeen] and [catalog.Packages] with a bundle.
type bundled struct{ *bundle.Registry }

// Recorded implements [catalog.FirstSeen].
func (b bundled) Recorded(ctx context.Context, m modproxy.Address) (modproxy.FirstSeen, error) {
	return b.Of(ctx, m)
}

// Stat implements [catalog.Packages].
func (b bundled) Stat(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := b.Open(ctx, v)
	if err == nil {
		err = p.Close()
	}
	return p, err
}

// Open implements [catalog.Packages].
func (b bundled) Open(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := b.Package(ctx, v)
	if errors.Is(err, modproxy.ErrNotFound) {
		err = fs.ErrNotExist
	}
	return p, err
}
