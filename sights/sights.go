// Package sights records when versions of modules were first listed.
//
// Invariant: what was seen is durable before it is answered, and a recorded time does not become later. Versions whose record is
// damaged look newer than they are, and never older: they count as seen again, and not as listed when the module was met. So do
// those of a lost record, if the ledger has a version of the module.
//
// [Registry] is the layer that looks on while another registry is asked. The records are in a store, one for each module,
// and need no blobs: they are not evicted.
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

// Dates are the dates that a registry gives for versions.
type Dates interface {
	// Published returns when versions of a module were published, as far as its registry says. Versions are canonical:
	// those whose dates are wanted, the newest first. The registry was not asked about
	// rest, which PublishedOf does. There may be an answer beside an error, which is that of a registry.
	Published(ctx context.Context, m modproxy.Address, versions []string) (dates map[string]time.Time, rest []string, err error)
	// PublishedOf returns when one version was published. The time is zero if its registry does not say. Questions in
	// the background are as few as registries are sent at a time.
	PublishedOf(ctx context.Context, v modproxy.Ref) (time.Time, error)
}

// Ledger knows what was fetched before, also after the records of sights are lost.
type Ledger interface {
	// Lookup returns the record that counts for a version. Its error is [fs.ErrNotExist] when there is none.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// Registry answers what Next does, and records which versions that lists. It is safe for concurrent use.
type Registry struct {
	Next    modproxy.Registry
	Records store.Records
	Ledger  Ledger // a module of which it has a listed version was met before; nil knows none
	Dates   Dates  // asked by Sight; nil gives none
	// Observe, if not nil, is told what fails beside the question. It should be quick.
	Observe func(m modproxy.Address, err error)

	once   sync.Once
	recent *lru.Cache[modproxy.Address, recent]
	failed *lru.Cache[modproxy.Address, time.Time] // when a registry was asked for dates and did not answer well

	ending context.Context // of what asks for dates
	end    context.CancelFunc
	work   sync.WaitGroup
	one    singleflight.Group // by version

	mu        sync.Mutex                   // guards what follows
	datings   map[modproxy.Address]*dating // under way, by module in one spelling
	datingsOf map[string]int               // how many, by client
}

var _ modproxy.Registry = (*Registry)(nil)

type recent struct {
	sight modproxy.Sight
	until time.Time
}

const (
	rereadAfter = 3 * time.Second // how long a record counts without being read again
	maxRecent   = 512
	maxVersions = 1000 // of a record that is remembered
)

func (r *Registry) init() {
	r.once.Do(func() {
		r.recent, _ = lru.New[modproxy.Address, recent](maxRecent) // fails for no size only
		r.failed, _ = lru.New[modproxy.Address, time.Time](maxRecent)
		r.ending, r.end = context.WithCancel(context.Background())
		r.datings, r.datingsOf = map[modproxy.Address]*dating{}, map[string]int{}
	})
}

// Versions returns the answer of Next. That it could not be recorded is no error.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := r.Next.Versions(ctx, m)
	if err == nil {
		r.See(ctx, m, v)
	}
	return v, err
}

// Location returns the answer of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return r.Next.Location(ctx, v)
}

// Package returns the answer of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return r.Next.Package(ctx, v)
}

// See records the versions of a document that were not seen before: they were when its registry gave it, at v.Time. Observe
// is told that it cannot.
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

// metBefore reports whether the ledger has a version of m that v lists. Then m is not new, but its record is lost.
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

// Take records when versions were first listed, as another proxy saw it: of two times the earlier one counts. The date that
// a registry gives stays if there is one. Errors: [modproxy.ErrUnavailable].
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

// Recorded returns what is recorded of m, and asks nobody. Errors: [modproxy.ErrUnavailable].
func (r *Registry) Recorded(ctx context.Context, m modproxy.Address) (modproxy.Sight, error) {
	return r.read(ctx, m)
}

// read returns the record of m; a damaged one is as if it were not there.
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

// maxAhead is how far the clock of another process may be ahead.
const maxAhead = 5 * time.Minute

// clamp replaces times that are later than now, which a clock that was ahead has recorded, and reports whether there were any.
// Otherwise these versions would be too young until that time, and for min_age after it.
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
