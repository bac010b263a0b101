package modproxy

import (
	"encoding/json"
	"slices"
	"time"
)

// Versions is a registry's list of versions: its document without the fields that clients ignore. Versions is immutable.
type Versions struct {
	// Document is the JSON document to serve. It has one module, at least one version, and every other field of the
	// registry's document. For a provider, it has the form that [ParseProviderVersions] describes.
	Document   []byte
	Compressed []byte    // Document in gzip form
	ETag       string    // a strong entity tag of Document, with its quotes
	List       []Listed  // one entry for each version in Document, in its order
	Dropped    int       // number of entries of the registry that no client can parse
	Time       time.Time // when the registry gave the answer
	Hit        bool      // the answer came from the cache
	Stale      bool      // the answer has expired: the upstream is unavailable, or a refresh is in progress

	kind AddressKind // of the module or provider; it determines the form of Document
}

// Listed is one version in a versions document.
type Listed struct {
	Version  Version
	Spelling string          // as the registry spells it
	Entry    json.RawMessage // the whole entry; for a parsed document, a subslice of Document
}

// ParseVersions parses a registry's versions document (https://opentofu.org/docs/internals/module-registry-protocol/). If the
// document has several modules, it reads the first, like the clients. It drops and counts entries whose version no client can
// parse, or has a [Variant]. It needs about three times the document's size in memory, and 160 bytes for each version.
//
// Errors: [ErrNotFound] if the document lists no version; [ErrInvalid] if no entry can be parsed, or the document is
// malformed.
func ParseVersions(document []byte) (*Versions, error) {
	return parseVersions(document, nil, Module, nil, nil)
}

// ReadVersions calls ParseVersions for a module, and ParseProviderVersions for a provider.
func ReadVersions(m Address, document []byte) (*Versions, error) {
	return RestoreVersions(m, document, nil)
}

// RestoreVersions is ReadVersions for a stored document that comes with its gzip form. compressed must be the gzip form of
// document, or nil.
func RestoreVersions(m Address, document, compressed []byte) (*Versions, error) {
	switch m.Kind() {
	case Provider:
		return ParseProviderVersions(document)
	case Module:
	}
	return parseVersions(document, compressed, Module, nil, nil)
}

// NoVersions returns a document of m without versions, for [Versions.With].
func NoVersions(m Address) *Versions {
	document := ""
	switch m.Kind() {
	case Module:
		document = `{"modules":[{"versions":[]}]}`
	case Provider:
		document = `{"versions":[]}`
	}
	return &Versions{Document: []byte(document), kind: m.Kind()}
}

// like copies the fields beside the document from old to v, which was derived from old.
func (v *Versions) like(old *Versions) *Versions {
	v.Dropped, v.Time, v.Hit, v.Stale = old.Dropped, old.Time, old.Hit, old.Stale
	return v
}

// With returns v with additional entries. It ignores entries of versions that v lists. It does not change v.
func (v *Versions) With(more []Listed) (*Versions, error) {
	have := make(map[string]bool, len(v.List))
	for _, l := range v.List {
		have[l.Version.String()] = true
	}
	missing := slices.DeleteFunc(slices.Clone(more), func(l Listed) bool { return have[l.Version.String()] })
	if len(missing) == 0 {
		return v, nil
	}
	merged, err := parseVersions(v.Document, nil, v.kind, missing, nil)
	if err != nil {
		return nil, err
	}
	return merged.like(v), nil
}

// Latest returns the version of highest precedence. It returns a pre-release only if v has nothing else. found is false if v
// is empty.
func (v *Versions) Latest() (best Version, found bool) {
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

// Find returns the entry of a canonical version.
func (v *Versions) Find(version string) (Listed, bool) {
	i := slices.IndexFunc(v.List, func(l Listed) bool { return l.Version.String() == version })
	if i < 0 {
		return Listed{}, false
	}
	return v.List[i], true
}

// Only returns v with only the versions for which keep returns true. It returns nil if no version remains. It does not change
// v.
func (v *Versions) Only(keep func(Listed) bool) (*Versions, error) {
	kept := make(map[string]bool, len(v.List))
	for _, l := range v.List {
		if keep(l) {
			kept[l.Spelling] = true
		}
	}
	switch len(kept) {
	case 0:
		return nil, nil
	case len(v.List):
		return v, nil
	}
	some, err := parseVersions(v.Document, nil, v.kind, nil, func(l Listed) bool { return kept[l.Spelling] })
	if err != nil {
		return nil, err
	}
	return some.like(v), nil
}
