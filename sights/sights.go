// Package sights records when versions of modules were first listed.
//
// Invariant: what was seen is durable before it is answered, and a recorded time does not change. Without the records
// versions look newer than they are, and never older.
//
// [Registry] is the layer that looks on while another registry is asked. The records are in a store, one for each module,
// and need no blobs: they are not evicted.
package sights

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	// Published returns when versions of a module were published, by canonical version, as far as its registry says.
	// Errors are those of a registry.
	Published(ctx context.Context, m modproxy.Module) (map[string]time.Time, error)
}

// Registry answers what Next does, and records which versions that lists. It is safe for concurrent use.
type Registry struct {
	Next    modproxy.Registry
	Records store.Records
	Dates   Dates // asked by Sight; nil gives none
	// Observe, if not nil, is told what fails beside the question. It should be quick.
	Observe func(m modproxy.Module, err error)

	once   sync.Once
	recent *lru.Cache[modproxy.Module, recent]
	dating singleflight.Group
}

var _ modproxy.Registry = (*Registry)(nil)

type recent struct {
	sight modproxy.Sight
	until time.Time
}

const (
	rereadAfter = 3 * time.Second // how long a record counts without being read again
	datesAfter  = time.Hour       // how often a registry is asked for dates that it did not give
	datesWithin = 4 * time.Second // how long a registry may take to give them
	maxRecent   = 4 << 10
	maxTries    = 16 // to change a record that others change, too
)

// Versions returns the answer of Next. That it could not be recorded is no error.
func (r *Registry) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	v, err := r.Next.Versions(ctx, m)
	if err == nil {
		if err := r.see(ctx, m, v); err != nil && r.Observe != nil {
			r.Observe(m, err)
		}
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

// see records the versions that were not seen before.
func (r *Registry) see(ctx context.Context, m modproxy.Module, v *modproxy.Versions) error {
	known, err := r.read(ctx, m)
	if err != nil {
		return err
	}
	isNew := func(s modproxy.Sight, l modproxy.Listed) bool {
		_, seen := s.Of(l.Version.String())
		return !seen
	}
	fresh := 0
	for _, l := range v.List {
		if isNew(known, l) {
			fresh++
		}
	}
	if fresh == 0 {
		return nil
	}
	now := time.Now().UTC()
	return r.change(ctx, m, func(s *modproxy.Sight) {
		seen := modproxy.VersionSight{Seen: now}
		if s.Met.IsZero() {
			s.Met, seen.Seen = now, time.Time{}
		}
		for _, l := range v.List {
			if isNew(*s, l) {
				s.Versions[nameOf(l.Version)] = seen
			}
		}
	})
}

// Sight returns since when the versions of m are listed. The registry of m is asked for its dates when they are not known.
// Errors: [modproxy.ErrUnavailable].
func (r *Registry) Sight(ctx context.Context, m modproxy.Module) (modproxy.Sight, error) {
	s, err := r.read(ctx, m)
	if err != nil || r.Dates == nil || s.Met.IsZero() || !r.wantsDates(s) {
		return s, err
	}
	done := r.dating.DoChan(m.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), datesWithin)
		defer cancel()
		return nil, r.date(ctx, m)
	})
	select {
	case result := <-done:
		if result.Err != nil && r.Observe != nil {
			r.Observe(m, result.Err)
		}
	case <-ctx.Done():
		return s, ctx.Err()
	}
	return r.read(ctx, m)
}

// wantsDates reports whether a version has no date, and it is time to ask for it.
func (r *Registry) wantsDates(s modproxy.Sight) bool {
	if time.Since(s.Dated) < datesAfter {
		return false
	}
	for _, v := range s.Versions {
		if v.Published.IsZero() {
			return true
		}
	}
	return false
}

// date records the dates that the registry of m gives. That it was asked is recorded, too.
func (r *Registry) date(ctx context.Context, m modproxy.Module) error {
	dates, err := r.Dates.Published(ctx, m)
	errChange := r.change(context.WithoutCancel(ctx), m, func(s *modproxy.Sight) {
		s.Dated = time.Now().UTC()
		for name, v := range s.Versions {
			if at, ok := dates[name]; ok && v.Published.IsZero() {
				v.Published = at.UTC()
				s.Versions[name] = v
			}
		}
	})
	return errors.Join(err, errChange)
}

// read returns the record of m; a damaged one is as if it were not there.
func (r *Registry) read(ctx context.Context, m modproxy.Module) (modproxy.Sight, error) {
	r.once.Do(func() { r.recent, _ = lru.New[modproxy.Module, recent](maxRecent) })
	if known, ok := r.recent.Get(m.Folded()); ok && time.Now().Before(known.until) {
		return known.sight, nil
	}
	s, _, err := r.load(ctx, m)
	if err == nil {
		r.recent.Add(m.Folded(), recent{s, time.Now().Add(rereadAfter)})
	}
	return s, err
}

func (r *Registry) load(ctx context.Context, m modproxy.Module) (s modproxy.Sight, revision uint64, err error) {
	rec, err := r.Records.Get(ctx, refOf(m))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrDamaged):
		return s, 0, nil
	case err != nil:
		return s, 0, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	case json.Unmarshal(rec.Value, &s) != nil:
		return modproxy.Sight{}, rec.Revision, nil
	}
	return s, rec.Revision, nil
}

// change changes the record of m, which is read again when it was changed meanwhile.
func (r *Registry) change(ctx context.Context, m modproxy.Module, f func(*modproxy.Sight)) error {
	for range maxTries {
		s, revision, err := r.load(ctx, m)
		if err != nil {
			return err
		}
		if s.Versions = maps.Clone(s.Versions); s.Versions == nil {
			s.Versions = map[string]modproxy.VersionSight{}
		}
		f(&s)
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		_, err = r.Records.Put(ctx, store.Record{Ref: refOf(m), Value: text, Revision: revision})
		if err == nil {
			r.recent.Add(m.Folded(), recent{s, time.Now().Add(rereadAfter)})
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%w: the record of when versions were first listed changes all the time", modproxy.ErrUnavailable)
}

// refOf names the record of m, and of what differs from it in case only.
func refOf(m modproxy.Module) store.Ref { return store.Ref{Kind: Kind, Key: m.Folded().String()} }

// nameOf returns the name of a version in a record.
func nameOf(v modproxy.Version) string {
	name, _, _ := strings.Cut(v.String(), "+")
	return name
}
