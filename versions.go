package modproxy

import (
	"encoding/json"
	"time"
)

// Versions is the answer to "which versions are there": a registry's own
// document, cleaned. It is not changed after it was made.
type Versions struct {
	// Document is the JSON document to serve: exactly one module, at least one
	// version, every field that the registry sent kept.
	Document []byte
	// Compressed is Document in gzip form.
	Compressed []byte
	// ETag is a strong entity tag of Document, with its quotes.
	ETag string
	// List has one entry for each version in Document, in its order.
	List []Listed
	// Dropped counts entries of the registry that no client can parse.
	Dropped int

	// Time is when the registry gave the answer.
	Time time.Time
	// Hit tells that the answer was kept, and not asked for now.
	Hit bool
	// Stale tells that the answer is older than it should be, and why it is
	// served all the same is upstream's trouble or a refresh under way.
	Stale bool
}

// Listed is one version in a versions document.
type Listed struct {
	Version  Version
	Spelling string          // as the registry spells it
	Entry    json.RawMessage // the whole entry; of a parsed document, a part of Document
}

// ParseVersions reads a registry's versions document
// (https://opentofu.org/docs/internals/module-registry-protocol/). Of several
// modules the first counts, as for the clients. Entries whose version no client
// can parse are dropped and counted. It takes about three times the document in
// memory, and 160 bytes for each version.
//
// Errors: [ErrInvalid] when the document has another shape, or entries of which
// none can be parsed; [ErrNotFound] when it lists nothing.
func ParseVersions(document []byte) (*Versions, error) { return clean(document, nil) }

// With is v with the given entries listed as well. Entries that v lists already
// change nothing; v itself is not changed.
func (v *Versions) With(more []Listed) (*Versions, error) {
	have := make(map[string]bool, len(v.List))
	for _, l := range v.List {
		have[l.Version.String()] = true
	}
	var missing []Listed
	for _, l := range more {
		if !have[l.Version.String()] {
			missing = append(missing, l)
		}
	}
	if len(missing) == 0 {
		return v, nil
	}
	merged, err := clean(v.Document, missing)
	if err != nil {
		return nil, err
	}
	merged.Dropped, merged.Time, merged.Hit, merged.Stale = v.Dropped, v.Time, v.Hit, v.Stale
	return merged, nil
}

// Latest is the version of highest precedence that is not a pre-release, or,
// where there is none, the pre-release of highest precedence. The zero Version
// comes with false when the list is empty.
func (v *Versions) Latest() (Version, bool) {
	var best Version
	found := false
	for _, l := range v.List {
		better := !found || l.Version.Compare(best) > 0
		if found && l.Version.Prerelease() != best.Prerelease() {
			better = best.Prerelease()
		}
		if better {
			best, found = l.Version, true
		}
	}
	return best, found
}

// Find is the entry for a canonical version.
func (v *Versions) Find(version string) (Listed, bool) {
	for _, l := range v.List {
		if l.Version.String() == version {
			return l, true
		}
	}
	return Listed{}, false
}
