// Package sights records when versions of modules were first listed.
//
//	r := &sights.Registry{Next: next, Records: records}
//	v, err := r.Versions(ctx, m) // records new versions
//	s, err := r.Sight(ctx, m)
//
// [Registry] is the layer that records versions while Next lists them. The records are in a store, one for each module. They
// need no blobs and are never evicted.
//
// Invariant: a first-seen time is durable before the list is returned, and a recorded time never becomes later. Versions with
// a damaged record look newer than they are, and never older: they count as seen again, and not as listed when the module was
// first seen. The same applies to a lost record, if the ledger has a version of the module.
package sights

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Kind is the kind of the records.
const Kind store.Kind = "module-sights"

// Dates returns the publication dates of versions from registries.
type Dates interface {
	// Published returns the publication dates of versions of a module, if its registry has them. versions are canonical: the
	// versions whose dates are requested, the newest first. The registry was not asked about rest: call PublishedOf for each.
	// Published may return dates together with an error, which is the error of a registry.
	Published(ctx context.Context, m modproxy.Address, versions []string) (dates map[string]time.Time, rest []string, err error)
	// PublishedOf returns the publication date of one version. The time is zero if the registry has no date. In the
	// background, requests to a registry are limited to the rate that registries accept.
	PublishedOf(ctx context.Context, v modproxy.Ref) (time.Time, error)
}

// Ledger has the records of versions that were downloaded before, also after records of sights are lost.
type Ledger interface {
	// Lookup returns the record that applies to a version. Its error is [fs.ErrNotExist] if the record does not exist.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// Registry returns the results of Next, and records the listed versions. It is safe for concurrent use.
type Registry struct {
	Next    modproxy.Registry
	Records store.Records
	Ledger  Ledger // shows that a module was seen before: it has a listed version of it; may be nil
	Dates   Dates  // used by Sight; may be nil
	// Observe, if not nil, is called with errors that do not fail a request. It should be quick.
	Observe func(m modproxy.Address, err error)

	once   sync.Once
	recent *lru.Cache[modproxy.Address, recent]
	failed *lru.Cache[modproxy.Address, time.Time] // when a request for dates to a registry failed

	ending context.Context // the context of all work for dates
	end    context.CancelFunc
	work   sync.WaitGroup
	one    singleflight.Group // by version

	mu        sync.Mutex                   // guards datings and datingsOf
	datings   map[modproxy.Address]*dating // in progress, by folded module
	datingsOf map[string]int               // number of datings by client
}

var _ modproxy.Registry = (*Registry)(nil)

type recent struct {
	sight modproxy.Sight
	until time.Time
}

const (
	rereadAfter = 3 * time.Second // lifetime of a record in memory
	maxRecent   = 512
	maxVersions = 1000 // of a record that is remembered
)

func (r *Registry) init() {
	r.once.Do(func() {
		r.recent, _ = lru.New[modproxy.Address, recent](maxRecent) // fails only if the size is not positive
		r.failed, _ = lru.New[modproxy.Address, time.Time](maxRecent)
		r.ending, r.end = context.WithCancel(context.Background())
		r.datings, r.datingsOf = map[modproxy.Address]*dating{}, map[string]int{}
	})
}

// Versions returns the result of Next. A failure to record it is observed, and not returned.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := r.Next.Versions(ctx, m)
	if err == nil {
		r.See(ctx, m, v)
	}
	return v, err
}

// Location returns the result of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return r.Next.Location(ctx, v)
}

// Package returns the result of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return r.Next.Package(ctx, v)
}

// See records the versions in v that were not seen before. Their first-seen time is v.Time, when the registry returned the
// list. Observe is called if See fails.
func (r *Registry) See(ctx context.Context, m modproxy.Address, v *modproxy.Versions) {
	if err := r.see(ctx, m, v); err != nil {
		r.observe(m, err)
	}
}

func (r *Registry) see(ctx context.Context, m modproxy.Address, v *modproxy.Versions) error {
	ctx = context.WithoutCancel(ctx)
	known, err := r.read(ctx, m)
	if err != nil {
		return err
	}
	isNew := func(s modproxy.Sight, l modproxy.Listed) bool {
		_, seen := s.Of(l.Version.String())
		return !seen
	}
	if !slices.ContainsFunc(v.List, func(l modproxy.Listed) bool { return isNew(known, l) }) {
		return nil
	}
	metBefore := false
	if known.Met.IsZero() {
		if metBefore, err = r.metBefore(ctx, m, v); err != nil {
			return err
		}
	}
	at := time.Now().UTC()
	if !v.Time.IsZero() && v.Time.Before(at) {
		at = v.Time.UTC()
	}
	return r.change(ctx, m, func(s *modproxy.Sight) {
		seen := modproxy.VersionSight{Seen: at}
		if s.Met.IsZero() {
			if s.Met = at; !metBefore {
				seen.Seen = time.Time{}
			}
		}
		for _, l := range v.List {
			if isNew(*s, l) {
				s.Versions[l.Version.String()] = seen
			}
		}
	})
}

// metBefore reports whether the ledger has a version of m that v lists. If it has, m is not new, and its record is lost.
func (r *Registry) metBefore(ctx context.Context, m modproxy.Address, v *modproxy.Versions) (bool, error) {
	if r.Ledger == nil {
		return false, nil
	}
	for _, l := range v.List {
		if _, err := r.Ledger.Lookup(ctx, m.At(l.Version.String())); !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// Take records the first-seen times of another proxy. The earlier of two times counts. An existing date of the registry
// stays. Errors: [modproxy.ErrUnavailable].
func (r *Registry) Take(ctx context.Context, m modproxy.Address, seen map[string]modproxy.VersionSight) error {
	r.init()
	return r.change(ctx, m, func(s *modproxy.Sight) {
		for name, v := range seen {
			is, known := s.Versions[name]
			at := cmp.Or(is.Seen, s.Met)
			if !known || v.Seen.Before(at) {
				is.Seen = v.Seen.UTC()
			}
			is.Published = cmp.Or(is.Published, v.Published.UTC())
			s.Versions[name] = is
		}
	})
}

// Recorded returns the record of m, without a request to a registry. Errors: [modproxy.ErrUnavailable].
func (r *Registry) Recorded(ctx context.Context, m modproxy.Address) (modproxy.Sight, error) {
	return r.read(ctx, m)
}

// read returns the record of m. A damaged record is treated as missing.
func (r *Registry) read(ctx context.Context, m modproxy.Address) (modproxy.Sight, error) {
	r.init()
	if known, ok := r.recent.Get(m.Folded()); ok && time.Now().Before(known.until) {
		return known.sight, nil
	}
	row, err := r.table().Get(ctx, keyOf(m))
	if err != nil {
		return modproxy.Sight{}, err
	}
	s := row.Value
	if now := time.Now(); clamp(&s, now) { // else the time would be that of each reading
		if err := r.change(ctx, m, func(s *modproxy.Sight) { clamp(s, now) }); err != nil {
			r.observe(m, err)
		}
	}
	r.remember(m, s)
	return s, nil
}

// maxAhead is the largest accepted difference of another process's clock.
const maxAhead = 5 * time.Minute

// clamp replaces times after now, recorded by a clock that was ahead, and reports whether it replaced any. Otherwise these
// versions would be too young until that time, and for min_age after it.
func clamp(s *modproxy.Sight, now time.Time) (changed bool) {
	latest, now := now.Add(maxAhead), now.UTC()
	if s.Met.After(latest) {
		s.Met, changed = now, true
	}
	for name, v := range s.Versions {
		if v.Seen.After(latest) {
			v.Seen = now
			s.Versions[name], changed = v, true
		}
	}
	return changed
}

func (r *Registry) remember(m modproxy.Address, s modproxy.Sight) {
	if len(s.Versions) <= maxVersions {
		r.recent.Add(m.Folded(), recent{s, time.Now().Add(rereadAfter)})
	} else {
		r.recent.Remove(m.Folded())
	}
}

// change changes the record of m. It calls f again if another process has changed the record meanwhile.
func (r *Registry) change(ctx context.Context, m modproxy.Address, f func(*modproxy.Sight)) error {
	var changed modproxy.Sight
	_, err := r.table().Update(ctx, keyOf(m), func(row *store.Row[modproxy.Sight]) {
		s := &row.Value
		if row.Damaged {
			s.Met = time.Now().UTC() // again: this is not the first contact
		}
		if s.Versions == nil {
			s.Versions = map[string]modproxy.VersionSight{}
		}
		f(s)
		changed = *s
	})
	if err == nil {
		r.remember(m, changed)
	}
	return err
}

func (r *Registry) table() store.Table[modproxy.Sight] {
	return store.Table[modproxy.Sight]{Records: r.Records, Kind: Kind}
}

func (r *Registry) observe(m modproxy.Address, err error) {
	if r.Observe != nil {
		r.Observe(m, err)
	}
}

// keyOf returns the key of the row of m, which is the same for all spellings of m.
func keyOf(m modproxy.Address) string { return m.Folded().String() }
