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
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
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
	// Published returns when versions of a module were published, as far as its registry says. Versions are canonical
	// and without build metadata; those whose dates are wanted, the newest first. There may be an answer beside an
	// error, which is that of a registry.
	Published(ctx context.Context, m modproxy.Module, versions []string) (map[string]time.Time, error)
}

// Ledger knows what was fetched before, also after the records of sights are lost.
type Ledger interface {
	// Lookup returns the record that counts for a version. Its error is [fs.ErrNotExist] when there is none.
	Lookup(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Record, error)
}

// Registry answers what Next does, and records which versions that lists. It is safe for concurrent use.
type Registry struct {
	Next    modproxy.Registry
	Records store.Records
	Ledger  Ledger // a module of which it has a listed version was met before; nil knows none
	Dates   Dates  // asked by Sight; nil gives none
	// Observe, if not nil, is told what fails beside the question. It should be quick.
	Observe func(m modproxy.Module, err error)

	once   sync.Once
	recent *lru.Cache[modproxy.Module, recent]
	failed *lru.Cache[modproxy.Module, time.Time] // when a registry was asked for dates and did not answer well
	dating singleflight.Group
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
	maxTries    = 16   // to change a record that others change, too

	datesAfter    = time.Hour        // how often a registry is asked for dates that it did not give
	datesPause    = time.Minute      // how often, when it does not answer
	datesWithin   = 10 * time.Second // how long it may take to give them
	datesPatience = 2 * time.Second  // how long a question waits for that
)

// firstDate is before all dates of modules: Terraform itself is of this day. What is before it stands for no date.
var firstDate = time.Date(2014, time.July, 28, 0, 0, 0, 0, time.UTC)

func (r *Registry) init() {
	r.once.Do(func() {
		r.recent, _ = lru.New[modproxy.Module, recent](maxRecent) // fails for no size only
		r.failed, _ = lru.New[modproxy.Module, time.Time](maxRecent)
	})
}

// Versions returns the answer of Next. That it could not be recorded is no error.
func (r *Registry) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	v, err := r.Next.Versions(ctx, m)
	if err == nil {
		r.See(ctx, m, v)
	}
	return v, err
}

// Location returns the answer of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Location, error) {
	return r.Next.Location(ctx, v)
}

// Package returns the answer of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	return r.Next.Package(ctx, v)
}

// See records the versions of a document that were not seen before: they were when its registry gave it, at v.Time. Observe
// is told that it cannot.
func (r *Registry) See(ctx context.Context, m modproxy.Module, v *modproxy.Versions) {
	if err := r.see(ctx, m, v); err != nil {
		r.observe(m, err)
	}
}

func (r *Registry) see(ctx context.Context, m modproxy.Module, v *modproxy.Versions) error {
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
				s.Versions[nameOf(l.Version)] = seen
			}
		}
	})
}

// metBefore reports whether the ledger has a version of m that v lists. Then m is not new, but its record is lost.
func (r *Registry) metBefore(ctx context.Context, m modproxy.Module, v *modproxy.Versions) (bool, error) {
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
func (r *Registry) Take(ctx context.Context, m modproxy.Module, seen map[string]modproxy.VersionSight) error {
	r.init()
	return r.change(ctx, m, func(s *modproxy.Sight) {
		for version, v := range seen {
			name, _, _ := strings.Cut(version, "+")
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
func (r *Registry) Recorded(ctx context.Context, m modproxy.Module) (modproxy.Sight, error) {
	return r.read(ctx, m)
}

// Sight returns since when the versions of m are listed. The registry of m is asked for its dates when they are not known.
// It has two seconds to answer about versions that it was never asked about; what it answers later counts from then on.
// Errors: [modproxy.ErrUnavailable].
func (r *Registry) Sight(ctx context.Context, m modproxy.Module) (modproxy.Sight, error) {
	s, err := r.read(ctx, m)
	if err != nil || r.Dates == nil {
		return s, err
	}
	asks, waits := r.wantsDates(m, s)
	if !asks {
		return s, nil
	}
	if !waits {
		ctx = modproxy.InBackground(ctx)
	}
	done := r.dating.DoChan(m.Folded().String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), datesWithin)
		defer cancel()
		if err := r.date(ctx, m); err != nil {
			r.failed.Add(m.Folded(), time.Now())
			r.observe(m, err)
		}
		return nil, nil
	})
	if !waits {
		return s, nil
	}
	select {
	case <-done:
	case <-time.After(datesPatience):
	case <-ctx.Done():
		return s, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, context.Cause(ctx))
	}
	return r.read(ctx, m)
}

// wantsDates reports whether a version has no date and it is time to ask for it, and whether its registry was never asked
// about one.
func (r *Registry) wantsDates(m modproxy.Module, s modproxy.Sight) (asks, waits bool) {
	if at, ok := r.failed.Get(m.Folded()); ok && time.Since(at) < datesPause {
		return false, false
	}
	since := time.Since(s.Dated)
	again := since >= datesAfter || since < 0 // when the clock was ahead
	for _, v := range s.Versions {
		switch {
		case !takesDate(m, v):
		case s.Dated.IsZero() || v.Seen.After(s.Dated):
			return true, true
		default:
			asks = again
		}
	}
	return asks, false
}

// date records the dates that the registry of m gives, and that it was asked.
func (r *Registry) date(ctx context.Context, m modproxy.Module) error {
	s, err := r.read(ctx, m)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	dates, err := r.Dates.Published(ctx, m, undated(m, s))
	return errors.Join(err, r.change(context.WithoutCancel(ctx), m, func(s *modproxy.Sight) {
		if err == nil {
			s.Dated = now
		}
		for name, v := range s.Versions {
			at, ok := dates[name]
			if !ok || at.Before(firstDate) || !takesDate(m, v) {
				continue
			}
			if v.Published = at.UTC(); at.After(now) {
				v.Published = now
			}
			s.Versions[name] = v
		}
	}))
}

// takesDate reports whether the date that a registry gives for a version of m counts. Of a provider it is what the signer says,
// who may lie: it counts for what was listed when the provider was met, and not for what was seen to appear.
func takesDate(m modproxy.Module, v modproxy.VersionSight) bool {
	return v.Published.IsZero() && (!m.IsProvider() || v.Seen.IsZero())
}

// undated returns the versions whose dates are wanted, the newest first.
func undated(m modproxy.Module, s modproxy.Sight) (names []string) {
	var list []modproxy.Version
	for name, v := range s.Versions {
		if version, err := modproxy.ParseVersion(name); err == nil && takesDate(m, v) {
			list = append(list, version)
		}
	}
	slices.SortFunc(list, func(a, b modproxy.Version) int { return b.Compare(a) })
	for _, v := range list {
		names = append(names, v.String())
	}
	return names
}

// read returns the record of m; a damaged one is as if it were not there.
func (r *Registry) read(ctx context.Context, m modproxy.Module) (modproxy.Sight, error) {
	r.init()
	if known, ok := r.recent.Get(m.Folded()); ok && time.Now().Before(known.until) {
		return known.sight, nil
	}
	s, _, _, err := r.load(ctx, m)
	if err == nil {
		r.remember(m, s)
	}
	return s, err
}

func (r *Registry) remember(m modproxy.Module, s modproxy.Sight) {
	if len(s.Versions) <= maxVersions {
		r.recent.Add(m.Folded(), recent{s, time.Now().Add(rereadAfter)})
	} else {
		r.recent.Remove(m.Folded())
	}
}

func (r *Registry) load(ctx context.Context, m modproxy.Module) (s modproxy.Sight, revision uint64, damaged bool, err error) {
	rec, err := r.Records.Get(ctx, refOf(m))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, 0, false, nil
	case errors.Is(err, store.ErrDamaged):
		return s, 0, true, nil
	case err != nil:
		return s, 0, false, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	case json.Unmarshal(rec.Value, &s) != nil:
		return modproxy.Sight{}, rec.Revision, true, nil
	}
	return s, rec.Revision, false, nil
}

// change changes the record of m, which is read again when it was changed meanwhile.
func (r *Registry) change(ctx context.Context, m modproxy.Module, f func(*modproxy.Sight)) error {
	for range maxTries {
		s, revision, damaged, err := r.load(ctx, m)
		if err != nil {
			return err
		}
		if damaged {
			s.Met = time.Now().UTC() // again: this is not the first contact
		}
		if s.Versions == nil {
			s.Versions = map[string]modproxy.VersionSight{}
		}
		f(&s)
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		_, err = r.Records.Put(ctx, store.Record{Ref: refOf(m), Value: text, Revision: revision})
		if err == nil {
			r.remember(m, s)
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: the record of when versions were first listed changes all the time", modproxy.ErrUnavailable)
}

func (r *Registry) observe(m modproxy.Module, err error) {
	if r.Observe != nil {
		r.Observe(m, err)
	}
}

// refOf names the record of m, and of what differs from it in case only.
func refOf(m modproxy.Module) store.Ref { return store.Ref{Kind: Kind, Key: m.Folded().String()} }

// nameOf returns the name of a version in a record.
func nameOf(v modproxy.Version) string {
	name, _, _ := strings.Cut(v.String(), "+")
	return name
}
