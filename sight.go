package modproxy

import "time"

// Sight says since when the versions of a module are listed. The zero Sight is nothing. It is not changed.
type Sight struct {
	Met      time.Time               `json:"met,omitzero"`   // when the module was met
	Versions map[string]VersionSight `json:"versions"`       // by canonical version
	Dated    time.Time               `json:"dated,omitzero"` // when its registry was last asked for all dates
	// Dateless are the versions, named as in Versions, about which the registry was asked one by one and gave no date.
	Dateless map[string]bool `json:"dateless,omitempty"`
	// Pending are the versions about which the registry is going to be asked.
	Pending map[string]bool `json:"-"`
}

// VersionSight says since when one version is listed.
type VersionSight struct {
	Seen      time.Time `json:"seen,omitzero"`      // when it was first seen; zero if it was listed when the module was met
	Published time.Time `json:"published,omitzero"` // the date that the registry's API gives; zero if it gives none
}

// Of returns what is known of a canonical version, and whether it was seen. Versions that differ in their build metadata are
// different ones: one may be published long after another.
func (s Sight) Of(version string) (v VersionSight, seen bool) {
	v, seen = s.Versions[version]
	return v, seen
}

// Since returns since when a canonical version is listed, as far as that is known: the date that the registry gives, unless
// that is later than when the version was seen; else when it was first seen; else zero.
func (s Sight) Since(version string) time.Time {
	v, _ := s.Of(version)
	seen := v.Seen
	if seen.IsZero() {
		seen = s.Met
	}
	switch {
	case v.Published.IsZero():
		return v.Seen
	case v.Published.Before(seen):
		return v.Published
	}
	return seen
}
