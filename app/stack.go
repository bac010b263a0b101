package app

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/catalog"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/nested"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/prefetch"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/rewrite"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/tfconfig"
	"github.com/modproxy/modproxy/upstream"
	"github.com/modproxy/modproxy/upstream/tags"
)

// layers is a stack of layers, and the layers that are also used directly.
type layers struct {
	Registry  modproxy.Registry // answers clients
	Cache     *cache.Registry
	listing   modproxy.Registry   // lists the versions that catalog describes
	catalog   modproxy.Catalog    // answers clients
	documents *cache.Catalog      // the cached descriptions of modules and providers
	nested    *nested.Registry    // in the stack if nested sources are rewritten
	recheck   ledger.Recheck      // does nothing offline and on read-only data
	others    proxy.OtherServices // nil offline
	git       *gitProgram         // nil offline
	upstreams *upstream.Client    // nil offline
	own       *tags.Registry      // nil offline, and without own modules

	endPrefetching func()
}

// online returns the layers of a proxy that sends requests to registries. A request passes the layers in this order: package auth
// checks the scopes of the client, rewrite makes locations of this proxy, observe notifies observers, policy denies versions, nested
// rewrites sources in packages, cache answers or continues, guard downloads nothing if the data is read-only, history
// records first-seen times, ledger compares the content, nested.Sources finds recorded sources, and the router selects the client of the
// registry.
//
// The ledger records a version before the cache stores its package. A record in the ledger without a package does no harm: the next
// download must match it. In the other order, packages that differ from the record would fill the disk.
func online(p *parts, out *outgoing) layers {
	l := layers{documents: p.newDocuments(out.router), others: out.router, git: out.git, upstreams: out.client, own: out.own}
	sources := nested.NewSources(out.router, out.table)
	compared := &ledger.Registry{Next: sources, Ledger: p.Ledger, Signers: p.config.Providers.Keys, Observe: p.observeLedger}
	seen := &history.Registry{Next: compared, FirstSeen: p.firstSeen}
	l.Cache = p.newCache(guard(seen, p.disk.ReadOnly()), out.origin)
	l.nested = p.newNested(l.Cache, sources, out.table)
	packages, base := p.packagesOf(&l)
	prefetcher := p.newPrefetcher(l.Cache, p.authorizeSilently(&policy.Registry{Next: packages, Gate: p.gate}))
	allowed := &policy.Registry{Next: packages, Gate: p.gate, ListDenied: true, Observe: p.observePolicy}
	observed := &observe.Registry{Next: allowed, Observers: append(p.prefetching(prefetcher), p.counting()...)}
	located := &rewrite.Registry{Next: observed, Base: base}
	l.Registry = p.authorize(located)
	l.recheck, l.endPrefetching = p.newRecheck(compared, l.Cache), prefetcher.Close
	p.describe(&l, packages, &policy.Registry{Next: cached{l.Cache}, Gate: p.gate, FirstSeen: recorded{p.firstSeen}})
	return l
}

// offline returns the layers of a proxy that serves its cache and makes no request to registries.
func offline(p *parts) layers {
	l := layers{documents: p.newDocuments(nil), endPrefetching: func() {}}
	l.Cache = p.newCache(nil, nil)
	l.nested = p.newNested(l.Cache, nil, p.newTable(nil))
	packages, base := p.packagesOf(&l)
	allowed := &policy.Registry{Next: packages, Gate: p.gate, ListDenied: true, Observe: p.observePolicy}
	misses := history.NewMisses(p.missing)
	observed := &observe.Registry{Next: allowed, Observers: append([]observe.Observer{misses}, p.counting()...)}
	located := &rewrite.Registry{Next: observed, Base: base}
	l.Registry = p.authorize(located)
	p.describe(&l, packages, &policy.Registry{Next: packages, Gate: p.gate})
	return l
}

// fromBundle returns the layers of a proxy that serves a bundle. It stores and records nothing.
func fromBundle(b *bundle.Registry, gate *policy.Gate) layers {
	listing := &policy.Registry{Next: b, Gate: gate}
	allowed := &policy.Registry{Next: b, Gate: gate, ListDenied: true}
	return layers{
		Registry: &rewrite.Registry{Next: allowed},
		listing:  listing,
		catalog: catalog.New(catalog.Config{
			Registry: listing, Known: listing, Packages: bundled{b}, Ledger: b, FirstSeen: bundled{b},
			Rules: verdicts{gate}, Reader: describer{tfconfig.NewReader(nil, 0)},
		}),
	}
}

// inspect returns the layer for verbs that read the data directory without a proxy. It answers no clients, and makes no request
// to registries. If ledgerLog is nil, packages can only be listed and discarded.
func inspect(kept *store.Store, ledgerLog *ledger.Log) layers {
	l := layers{Cache: cache.New(cache.Config{Store: kept})}
	if ledgerLog != nil {
		l.Cache.Ledger = ledgerLog
	}
	return l
}

// close ends the work of online and offline layers.
func (l *layers) close(soon context.Context) error {
	return closers{
		func(context.Context) error {
			ended, cancel := context.WithCancel(soon)
			cancel()
			_ = l.documents.Close(ended) // requests in progress are repeated after the next start
			return nil
		},
		l.Cache.Close,
		l.nested.Close,
		func(context.Context) error { l.endPrefetching(); return nil },
	}.close(soon)
}

// newCache returns the cache of next, or of no registry if next is nil. origin is that of [cache.Config].
func (p *parts) newCache(next modproxy.Registry, origin func(modproxy.Address) string) *cache.Registry {
	c := p.config
	return cache.New(cache.Config{
		Next: next, Store: p.Store, Ledger: p.Ledger, Gate: p.gate, Origin: origin,
		Lifetimes: p.lifetimes(), MaxVersions: int64(c.Cache.MaxVersions),
		Fetches: c.Fetch.AtOnce, FetchTimeout: c.Fetch.Timeout, Zips: c.Providers.AtOnce, ZipTimeout: c.Providers.Timeout,
		Observe: p.observe,
	})
}

// lifetimes returns the lifetimes of all cached answers.
func (p *parts) lifetimes() cache.Lifetimes {
	c := p.config.Cache
	return cache.Lifetimes{Fresh: c.Fresh, MaxStale: c.MaxStale, Missing: c.Missing}
}

// newRecheck returns the recheck of the versions in the ledger. On read-only data it does nothing.
func (p *parts) newRecheck(compared *ledger.Registry, turns *cache.Registry) ledger.Recheck {
	if p.disk.ReadOnly() != nil {
		return ledger.Recheck{}
	}
	return ledger.Recheck{
		Registry: compared, Gate: p.gate, Every: p.config.Ledger.Recheck, FetchTimeout: p.config.Fetch.Timeout, Turns: turns,
	}
}

// newNested returns the layer that rewrites nested sources of the kinds in table. sources are nil offline.
func (p *parts) newNested(next *cache.Registry, sources *nested.Sources, table *fetch.Table) *nested.Registry {
	return nested.New(nested.Config{
		Next: next, Ledger: p.Ledger, Reader: p.reader, Sources: sources, URL: strings.TrimRight(p.config.PublicURL, "/"),
		Getters: slices.Sorted(maps.Keys(table.Getters)), Scratch: p.scratch(), Limits: anyLimits, Observer: p,
	})
}

// packagesOf returns the layer that returns packages to clients, and the base of their locations. The layer is l.nested if nested
// sources are rewritten, or else the cache.
func (p *parts) packagesOf(l *layers) (packages modproxy.Registry, base string) {
	if p.config.Rewrite.Nested {
		return l.nested, nested.Base(l.nested.URL)
	}
	return l.Cache, ""
}

// prefetching returns the prefetcher, if packages are prefetched. On read-only data nothing could be stored.
func (p *parts) prefetching(all *prefetch.Prefetcher) []observe.Observer {
	if !p.config.Cache.ReadAhead || p.disk.ReadOnly() != nil {
		return nil
	}
	return []observe.Observer{all}
}

// counting returns the observer that counts downloads. On read-only data no count could be recorded.
func (p *parts) counting() []observe.Observer {
	if p.disk.ReadOnly() != nil {
		return nil
	}
	return []observe.Observer{p.counts}
}

// authorize returns a layer that denies requests outside the scopes of the client, if clients need a token.
func (p *parts) authorize(next modproxy.Registry) modproxy.Registry {
	if p.auth == nil {
		return next
	}
	return &auth.Registry{
		Next: next, Open: p.config.IsOpen,
		// Offline, a list without a choice is recorded as a miss.
		ListOutside: func() bool { return p.gate.Rules().ListDenied && !p.config.Offline },
		Contact:     func() string { return p.gate.Rules().Contact },
	}
}

// authorizeSilently is like authorize, for layers whose denials need no explanation.
func (p *parts) authorizeSilently(next modproxy.Registry) modproxy.Registry {
	if p.auth == nil {
		return next
	}
	return &auth.Registry{Next: next, Open: p.config.IsOpen}
}

// guard returns next. If why is not nil, the data is read-only, and guard returns a layer that downloads nothing.
func guard(next modproxy.Registry, why error) modproxy.Registry {
	if why == nil {
		return next
	}
	return readOnly{next, why}
}

// readOnly downloads nothing: on read-only data a package could not be recorded, and could differ at the next download.
type readOnly struct {
	Next modproxy.Registry
	why  error
}

// Versions returns the result of Next.
func (r readOnly) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns [modproxy.NoSpace].
func (r readOnly) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{}, &modproxy.NoSpace{Err: r.why}
}

// Package returns [modproxy.NoSpace].
func (r readOnly) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return nil, &modproxy.NoSpace{Err: r.why}
}
