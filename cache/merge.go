package cache

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
)

// merge is what is served of got, the versions of m as upstream lists them now:
// got with the versions whose packages are kept. A nil got means that upstream
// has no such module; the result is nil when no package of it is kept either.
//
// The records of the kept packages are marked with whether upstream lists them.
func (r *Registry) merge(ctx context.Context, m modproxy.Module, got *modproxy.Versions, now time.Time) (*modproxy.Versions, error) {
	listed := map[string]bool{}
	if got != nil {
		for _, l := range got.List {
			listed[l.Version.String()] = true
		}
	}
	var unlisted []string
	var unread error
	for kept, err := range r.Index.Packages(m) {
		if err != nil {
			// A package whose record is damaged is kept all the same.
			r.observe(Event{Kind: IndexFailed, Module: m, Version: kept.Version, Err: err})
			if kept.Version == "" {
				unread = err
				continue
			}
		} else if kept.Record.Dropped.IsZero() != listed[kept.Version] {
			r.mark(key{m, kept.Version}, listed[kept.Version], now)
		}
		if !listed[kept.Version] {
			unlisted = append(unlisted, kept.Version)
		}
	}
	switch {
	case got == nil && unread != nil: // whether packages are kept is not known
		return nil, unread
	case len(unlisted) == 0:
		return got, nil
	}
	more, err := r.entries(ctx, m, unlisted)
	if err != nil {
		return nil, err
	}
	if got == nil {
		return document(more)
	}
	return got.With(more)
}

// mark records whether upstream lists a version whose package is kept.
func (r *Registry) mark(k key, listed bool, now time.Time) {
	defer lock(r, k)()
	rec, err := r.Index.Package(k.Module, k.version)
	kind := VersionDropped
	if err == nil {
		rec.Dropped = now
		if listed {
			kind, rec.Dropped = VersionListed, time.Time{}
		}
		err = r.Index.PutPackage(k.Module, k.version, rec)
		r.records.Remove(k)
	}
	if err != nil {
		r.observe(Event{Kind: IndexFailed, Module: k.Module, Version: k.version, Err: err})
		return
	}
	r.observe(Event{Kind: kind, Module: k.Module, Version: k.version})
}

// entries are the given versions of m as the kept document lists them, or, for
// those that it does not list, with nothing but their version.
func (r *Registry) entries(ctx context.Context, m modproxy.Module, versions []string) ([]modproxy.Listed, error) {
	a, ok := r.answers.get(m)
	if !ok {
		var err error
		if a, err = r.keptAnswer(ctx, m); err != nil {
			return nil, err
		}
	}
	known := map[string]modproxy.Listed{}
	if a != nil {
		for _, l := range a.kept.List {
			known[l.Version.String()] = l
		}
	}
	var list []modproxy.Listed
	for _, version := range versions {
		l, ok := known[version]
		if !ok {
			l, ok = bare(version)
		}
		if ok {
			list = append(list, l)
		}
	}
	return list, nil
}

// bare is an entry with nothing but a version; false if it is none.
func bare(version string) (modproxy.Listed, bool) {
	v, err := modproxy.ParseVersion(version)
	entry, _ := json.Marshal(map[string]string{"version": version}) // strings do not fail
	return modproxy.Listed{Version: v, Spelling: version, Entry: entry}, err == nil
}

// document is a versions document of nothing but entries; nil when there are
// none.
func document(entries []modproxy.Listed) (*modproxy.Versions, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	type module struct {
		Versions []json.RawMessage `json:"versions"`
	}
	var only module
	for _, l := range entries {
		only.Versions = append(only.Versions, l.Entry)
	}
	text, err := json.Marshal(map[string][]module{"modules": {only}})
	if err != nil {
		return nil, err
	}
	return modproxy.ParseVersions(text)
}

// compose is a versions document of kept packages; nil when there are none.
func (r *Registry) compose(packages iter.Seq2[Kept, error]) (*modproxy.Versions, error) {
	var list []modproxy.Listed
	for kept, err := range packages {
		if err != nil {
			r.observe(Event{Kind: IndexFailed, Module: kept.Module, Version: kept.Version, Err: err})
			continue
		}
		if l, ok := bare(kept.Version); ok {
			list = append(list, l)
		}
	}
	return document(list)
}
