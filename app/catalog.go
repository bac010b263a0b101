package app

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/catalog"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/tfconfig"
)

// openCatalog makes what describes the modules that layer has, by what describes says, which is nil when nobody is asked.
// Operators are not told of what is refused: nothing is to be installed.
func (a *App) openCatalog(layer modproxy.Registry, describes modproxy.Catalog) {
	cfg := a.config.Cache
	a.said = &cache.Catalog{
		Next: describes, Store: a.Store, Fresh: cfg.Fresh, MaxStale: cfg.MaxStale, Missing: cfg.Missing, MaxKept: int64(cfg.MaxVersions),
		Observer: a,
	}
	a.listing = &policy.Registry{Next: layer, Gate: a.gate}
	c := &catalog.Catalog{
		Next: a.said, Registry: a.listing, Known: a.listing, Packages: a.Cache, Ledger: a.Ledger, Sights: a.firstSeen, Counts: a.counts,
		Rules: verdicts{a.gate}, Reader: describer{a.reader},
	}
	if !a.config.Offline {
		c.Known = &policy.Registry{Next: known{a.Cache}, Gate: a.gate, Sights: recorded{a.firstSeen}}
	}
	a.catalog = c
}

// known lists what is known without asking a registry, and has nothing else.
type known struct{ cache *cache.Registry }

// Versions returns the versions that are known.
func (k known) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return k.cache.Known(ctx, m)
}

// Location returns [modproxy.ErrNotFound].
func (known) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{}, modproxy.ErrNotFound
}

// Package returns [modproxy.ErrNotFound].
func (known) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return nil, modproxy.ErrNotFound
}

// recorded is what is recorded of versions, without the dates that their registry would be asked for.
type recorded struct{ *history.FirstSeen }

// Sight implements [policy.Sights].
func (s recorded) Sight(ctx context.Context, m modproxy.Address) (modproxy.Sight, error) {
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

// verdicts are those of a gate.
type verdicts struct{ *policy.Gate }

// CheckListed implements [catalog.Rules].
func (g verdicts) CheckListed(ctx context.Context, v modproxy.Ref, sight modproxy.Sight) error {
	return g.CheckClientBy(ctx, v, (*given)(&sight))
}

// given is what is known of one module.
type given modproxy.Sight

// Sight implements [policy.Sights].
func (s *given) Sight(context.Context, modproxy.Address) (modproxy.Sight, error) {
	return modproxy.Sight(*s), nil
}

// See implements [policy.Sights]: it does nothing.
func (*given) See(context.Context, modproxy.Address, *modproxy.Versions) {}

// Deprecation implements [catalog.Rules].
func (g verdicts) Deprecation(ctx context.Context, v modproxy.Ref) (*modproxy.Deprecation, error) {
	decided, err := g.Decisions(ctx, v)
	if err != nil || decided.Deprecation == nil {
		return nil, err
	}
	return &modproxy.Deprecation{Reason: decided.Deprecation.Reason, Link: decided.Deprecation.Link}, nil
}

// bundled is what a bundle has.
type bundled struct{ *bundle.Registry }

// Recorded implements [catalog.Sights].
func (b bundled) Recorded(ctx context.Context, m modproxy.Address) (modproxy.Sight, error) {
	return b.Sight(ctx, m)
}

// Held implements [catalog.Packages].
func (b bundled) Held(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := b.OpenHeld(ctx, v)
	if err == nil {
		err = p.Close()
	}
	return p, err
}

// OpenHeld implements [catalog.Packages].
func (b bundled) OpenHeld(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := b.Package(ctx, v)
	if errors.Is(err, modproxy.ErrNotFound) {
		err = fs.ErrNotExist
	}
	return p, err
}
