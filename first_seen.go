package modproxy

import "time"

// FirstSeen has the first-seen times of the versions of a module. The zero FirstSeen is empty. A FirstSeen is never changed.
// Package history has the table of all modules, of the same name; interfaces called FirstSeen return values of this type.
type FirstSeen struct {
	Module   time.Time               `json:"met,omitzero"`   // when the module was first seen
	Versions map[string]VersionDates `json:"versions"`       // by canonical version
	Dated    time.Time               `json:"dated,omitzero"` // when all dates were last requested from its registry
	// Dateless are the canonical versions for which the registry returned no date to a request about that version.
	Dateless map[string]bool `json:"dateless,omitempty"`
	// Pending are the versions whose dates will be requested.
	Pending map[string]bool `json:"-"`
}

// VersionDates has the first-seen time and the publication date of one version.
type VersionDates struct {
	Seen      time.Time `json:"seen,omitzero"`      // zero if the version was already listed when the module was first seen
	Published time.Time `json:"published,omitzero"` // the date from the registry's API; zero if the API has no date
}

// Of returns the times of a canonical version, and whether the version was seen. Versions that differ in their build metadata
// are different: one may be published long after another.
func (s FirstSeen) Of(version string) (v VersionDates, seen bool) {
	v, seen = s.Versions[version]
	return v, seen
}

// Since returns the time since when a canonical version is listed. It is the registry's date, unless that is later than the
// first-seen time. Without a date, it is the first-seen time. Since returns zero if neither is known.
func (s FirstSeen) Since(version string) time.Time {
	v, _ := s.Of(version)
	seen := v.Seen
	if seen.IsZero() {
		seen = s.Module
	}
	switch {
	case v.Published.IsZero():
		return v.Seen
	case v.Published.Before(seen):
		return v.Published
	}
	return seen
}
