package history

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/store"
)

// FirstSeenKind is the kind of the records of [FirstSeen]. Each module or provider has one record, a [modproxy.FirstSeen].
const FirstSeenKind store.Kind = "module-sights"

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

// Ledger has the records of downloaded versions. It keeps them if first-seen times are lost.
type Ledger interface {
	// Lookup returns the record that applies to a version. Its error is [fs.ErrNotExist] if the record does not exist.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// FirstSeenConfig configures a [FirstSeen].
type FirstSeenConfig struct {
	Records store.Records
	// Ledger shows that a module was seen before: it has a listed version of the module. If Ledger is nil, a module without
	// a record is new.
	Ledger Ledger
	Dates  Dates // used by Of; nil: no registry is asked for dates
	// Observe, if not nil, is called with errors that do not fail a request. It should be quick.
	Observe func(m modproxy.Address, err error)
}

// FirstSeen is the table of first-seen times and publication dates. It is safe for concurrent use. It implements policy.FirstSeen.
//
// The versions in the first recorded list of a module have no first-seen time of their own: modproxy does not know for how long
// they were listed before. A version that appears in a later list has the time of that list.
//
// If a record is damaged, the versions in the next list are recorded like those of a later list. They look newer than they are,
// and never older. The same applies to a lost record, if the ledger has one of the listed versions. Without such a version, the
// next list counts as the first.
//
// If a list cannot be recorded, it stays in memory and is recorded before the next list of the module, with its own time. So a
// failure makes no version older or newer, unless the process ends first, or too many lists wait.
type FirstSeen struct {
	config FirstSeenConfig
	table  store.Table[modproxy.FirstSeen]

	recent     memory.Cache[modproxy.Address, modproxy.FirstSeen] // records, by folded module
	unrecorded memory.Cache[modproxy.Address, *modproxy.Versions] // the earliest list that could not be recorded, by folded module
	failed     memory.Cache[modproxy.Address, struct{}]           // folded modules whose request for dates has failed, for datesPause

	ending context.Context // the context of all work for dates
	end    context.CancelFunc
	work   sync.WaitGroup
	// one shares a request for the date of one version. It is not a flight.Group, which would move the request to the foreground when
	// an operator joins it, and would not report its errors to the first caller while the caller waits.
	one singleflight.Group

	mu        sync.Mutex                   // guards datings and datingsOf
	datings   map[modproxy.Address]*dating // in progress, by folded module
	datingsOf map[string]int               // number of datings by client
}

const (
	rereadAfter = 3 * time.Second // lifetime of a record in memory
	maxRecent   = 512
	maxRecalled = 1000 // versions of a record that is remembered

	maxUnrecorded = 128 // lists, each of at most maxRecalled versions
)

// NewFirstSeen returns the table that c describes. The caller must close it.
func NewFirstSeen(c FirstSeenConfig) *FirstSeen {
	f := &FirstSeen{
		config:     c,
		table:      store.Table[modproxy.FirstSeen]{Records: c.Records, Kind: FirstSeenKind},
		recent:     memory.Cache[modproxy.Address, modproxy.FirstSeen]{Max: maxRecent},
		unrecorded: memory.Cache[modproxy.Address, *modproxy.Versions]{Max: maxUnrecorded},
		failed:     memory.Cache[modproxy.Address, struct{}]{Max: maxRecent},
		datings:    map[modproxy.Address]*dating{}, datingsOf: map[string]int{},
	}
	f.ending, f.end = context.WithCancel(context.Background())
	return f
}

// See records the versions in v that were not seen before. Their first-seen time is v.Time, when the registry returned the
// list, or the current time if that is earlier or v.Time is zero. See returns after the store has made them durable. If See
// fails, it calls FirstSeenConfig.Observe, and the next See of m records v first. See does not end with ctx.
func (f *FirstSeen) See(ctx context.Context, m modproxy.Address, v *modproxy.Versions) {
	ctx = context.WithoutCancel(ctx)
	var err error
	if earlier, ok := f.unrecorded.Get(m.Folded()); ok {
		if err = f.see(ctx, m, earlier); err == nil {
			f.unrecorded.Drop(m.Folded())
		}
	}
	if err == nil {
		err = f.see(ctx, m, v)
	}
	if err != nil {
		f.rememberUnrecorded(m, v)
		f.observe(m, err)
	}
}

// rememberUnrecorded remembers a list that could not be recorded, without its document. It drops v if an earlier list waits: the versions
// that only v has are recorded with the next list.
func (f *FirstSeen) rememberUnrecorded(m modproxy.Address, v *modproxy.Versions) {
	if len(v.List) > maxRecalled {
		return
	}
	list := &modproxy.Versions{Time: v.Time}
	if now := time.Now(); list.Time.IsZero() || list.Time.After(now) {
		list.Time = now
	}
	for _, l := range v.List {
		list.List = append(list.List, modproxy.Listed{Version: l.Version})
	}
	f.unrecorded.GetOrAdd(m.Folded(), list, memory.Forever, 0) // the earlier list stays
}

// see records the versions in v that were not seen before.
func (f *FirstSeen) see(ctx context.Context, m modproxy.Address, v *modproxy.Versions) error {
	known, err := f.read(ctx, m)
	if err != nil {
		return err
	}
	isNew := func(s modproxy.FirstSeen, l modproxy.Listed) bool {
		_, seen := s.Of(l.Version.String())
		return !seen
	}
	if !slices.ContainsFunc(v.List, func(l modproxy.Listed) bool { return isNew(known, l) }) {
		return nil
	}
	seenBefore := false
	if known.Module.IsZero() {
		if seenBefore, err = f.seenBefore(ctx, m, v); err != nil {
			return err
		}
	}
	at := time.Now().UTC()
	if !v.Time.IsZero() && v.Time.Before(at) {
		at = v.Time.UTC()
	}
	return f.change(ctx, m, func(s *modproxy.FirstSeen) {
		seen := modproxy.VersionDates{Seen: at}
		if s.Module.IsZero() {
			if s.Module = at; !seenBefore {
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

// seenBefore reports whether the ledger has a version of m that v lists. If it has, m is not new, and its record is lost.
func (f *FirstSeen) seenBefore(ctx context.Context, m modproxy.Address, v *modproxy.Versions) (bool, error) {
	if f.config.Ledger == nil {
		return false, nil
	}
	for _, l := range v.List {
		if _, err := f.config.Ledger.Lookup(ctx, m.At(l.Version.String())); !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// Take records the first-seen times and publication dates of another proxy. The earlier of two first-seen times counts: Take
// can make a version older. The caller must trust the other proxy; package bundle verifies its signature. An existing date of
// the registry stays. Errors: [modproxy.ErrUnavailable].
func (f *FirstSeen) Take(ctx context.Context, m modproxy.Address, seen map[string]modproxy.VersionDates) error {
	return f.change(ctx, m, func(s *modproxy.FirstSeen) {
		for name, v := range seen {
			is, known := s.Versions[name]
			at := cmp.Or(is.Seen, s.Module)
			if !known || v.Seen.Before(at) {
				is.Seen = v.Seen.UTC()
			}
			is.Published = cmp.Or(is.Published, v.Published.UTC())
			s.Versions[name] = is
		}
	})
}

// Recorded returns the record of m, without a request to a registry. Errors: [modproxy.ErrUnavailable].
func (f *FirstSeen) Recorded(ctx context.Context, m modproxy.Address) (modproxy.FirstSeen, error) {
	return f.read(ctx, m)
}

// read returns the record of m. A damaged record is treated as missing.
func (f *FirstSeen) read(ctx context.Context, m modproxy.Address) (modproxy.FirstSeen, error) {
	if known, ok := f.recent.Get(m.Folded()); ok {
		return known, nil
	}
	row, err := f.table.Get(ctx, keyOf(m))
	if err != nil {
		return modproxy.FirstSeen{}, err
	}
	s := row.Value
	if now := time.Now(); clamp(&s, now) { // else the time would be that of each reading
		if err := f.change(ctx, m, func(s *modproxy.FirstSeen) { clamp(s, now) }); err != nil {
			f.observe(m, err)
		}
	}
	f.remember(m, s)
	return s, nil
}

// maxAhead is the largest accepted difference of another process's clock.
const maxAhead = 5 * time.Minute

// clamp replaces times after now, recorded by a clock that was ahead, and reports whether it replaced any. Otherwise these
// versions would be too young until that time, and for min_age after it.
func clamp(s *modproxy.FirstSeen, now time.Time) (changed bool) {
	latest, now := now.Add(maxAhead), now.UTC()
	if s.Module.After(latest) {
		s.Module, changed = now, true
	}
	for name, v := range s.Versions {
		if v.Seen.After(latest) {
			v.Seen = now
			s.Versions[name], changed = v, true
		}
	}
	return changed
}

func (f *FirstSeen) remember(m modproxy.Address, s modproxy.FirstSeen) {
	if len(s.Versions) <= maxRecalled {
		f.recent.Add(m.Folded(), s, rereadAfter, 0)
	} else {
		f.recent.Drop(m.Folded())
	}
}

// change changes the record of m. It calls edit again if another process has changed the record meanwhile.
func (f *FirstSeen) change(ctx context.Context, m modproxy.Address, edit func(*modproxy.FirstSeen)) error {
	var changed modproxy.FirstSeen
	_, err := f.table.Update(ctx, keyOf(m), func(row *store.Row[modproxy.FirstSeen]) {
		s := &row.Value
		if row.Damaged {
			s.Module = time.Now().UTC() // again: this is not the first contact
		}
		if s.Versions == nil {
			s.Versions = map[string]modproxy.VersionDates{}
		}
		edit(s)
		changed = *s
	})
	if err == nil {
		f.remember(m, changed)
	}
	return err
}

func (f *FirstSeen) observe(m modproxy.Address, err error) {
	if f.config.Observe != nil {
		f.config.Observe(m, err)
	}
}

// keyOf returns the key of the row of m, which is the same for all spellings of m.
func keyOf(m modproxy.Address) string { return m.Folded().String() }
