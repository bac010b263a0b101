package app

import (
	"context"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/catalog"
	"github.com/modproxy/modproxy/policy"
)

// openCatalog makes what describes the modules that layer has. That somebody asks for a description is told to nobody: nothing
// is to be installed.
func (a *App) openCatalog(layer modproxy.Registry) {
	a.listing = &policy.Registry{Next: layer, Gate: a.gate}
	c := &catalog.Catalog{
		Registry: a.listing, Known: a.listing, Packages: a.Cache, Ledger: a.Ledger, Sights: a.sights, Rules: verdicts{a.gate},
	}
	if !a.config.Offline {
		c.Known = &policy.Registry{Next: known{a.Cache}, Gate: a.gate}
	}
	a.catalog = c
}

// known lists what is known without asking a registry, and has nothing else.
type known struct{ cache *cache.Registry }

// Versions returns the versions that are known.
func (k known) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	return k.cache.Known(ctx, m)
}

// Location returns [modproxy.ErrNotFound].
func (known) Location(context.Context, modproxy.ModuleVersion) (modproxy.Location, error) {
	return modproxy.Location{}, modproxy.ErrNotFound
}

// Package returns [modproxy.ErrNotFound].
func (known) Package(context.Context, modproxy.ModuleVersion) (*modproxy.Package, error) {
	return nil, modproxy.ErrNotFound
}

// verdicts are those of a gate.
type verdicts struct{ *policy.Gate }

// Deprecation implements [catalog.Rules].
func (g verdicts) Deprecation(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Deprecation, error) {
	decided, err := g.Decisions(ctx, v)
	if err != nil || decided.Deprecation == nil {
		return nil, err
	}
	return &modproxy.Deprecation{Reason: decided.Deprecation.Reason, Link: decided.Deprecation.Link}, nil
}
