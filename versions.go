package modproxy

import (
	"encoding/json"
	"slices"
	"time"
)

// Versions is the answer to "which versions are there": a registry's document without what clients ignore. It is constant.
type Versions struct {
	// Document is the JSON document to serve: one module, at least one version, and every field that the registry sent; of a
	// provider, what [ParseProviderVersions] says.
	Document   []byte
	Compressed []byte    // Document in gzip form
	ETag       string    // a strong entity tag of Document, with its quotes
	List       []Listed  // one entry for each version in Document, in its order
	Dropped    int       // entries of the registry that no client can parse
	Time       time.Time // when the registry gave the answer
	Hit        bool      // the answer was kept, and not asked for now
	Stale      bool      // the answer is older than it should be: upstream is in trouble, or a refresh is under way

	ofProvider bool // Document has the form of provider registries
}

// Listed is one version in a versions document.
type Listed struct {
	Version  Version
	Spelling string          // as the registry spells it
	Entry    json.RawMessage // the whole entry; of a parsed document, a part of Document
}

// ParseVersions reads a registry's versions document (https://opentofu.org/docs/internals/module-registry-protocol/).
// Of several modules the first counts, as for the clients. Entries whose version no client can parse, or that
// only [Ref.Made] returns, are dropped and counted. It takes about three times the document in memory, and 160 bytes for each version.
//
// Errors: [ErrNotFound] when the document lists nothing; [ErrInvalid] when no entry can be parsed, or it is malformed.
func ParseVersions(document []byte) (*Versions, error) {
	return parseVersions(document, nil, false, nil, nil)
}

// ReadVersions is ParseVersions for a module, and ParseProviderVersions for a provider.
func ReadVersions(m Address, document []byte) (*Versions, error) {
	if m.IsProvider() {
		return ParseProviderVersions(document)
	}
	return ParseVersions(document)
}

// RestoreVersions returns what ReadVersions does, for a stored document that comes with its gzip form. The caller must have made
// document from compressed.
func RestoreVersions(m Address, document, compressed []byte) (*Versions, error) {
	if m.IsProvider() {
		return ParseProviderVersions(document)
	}
	return parseVersions(document, compressed, false, nil, nil)
}

// NoVersions returns a document of m that lists nothing, for [Versions.With].
func NoVersions(m Address) *Versions {
	document := `{"modules":[{"versions":[]}]}`
	if m.IsProvider() {
		document = `{"versions":[]}`
	}
	return &Versions{Document: []byte(document), ofProvider: m.IsProvider()}
}

// like returns v, which was made of old, with what its registry said beside the document.
func (v *Versions) like(old *Versions) *Versions {
	v.Dropped, v.Time, v.Hit, v.Stale = old.Dropped, old.Time, old.Hit, old.Stale
	return v
}

// With returns v with more entries listed. Entries of versions that v lists are left out. It does not change v.
func (v *Versions) With(more []Listed) (*Versions, error) {
	have := make(map[string]bool, len(v.List))
	for _, l := range v.List {
		have[l.Version.String()] = true
	}
	missing := slices.DeleteFunc(slices.Clone(more), func(l Listed) bool { return have[l.Version.String()] })
	if len(missing) == 0 {
		return v, nil
	}
	merged, err := parseVersions(v.Document, nil, v.ofProvider, missing, nil)
	if err != nil {
		return nil, err
	}
	return merged.like(v), nil
}

// Latest returns the version of highest precedence, a pre-release only if there is nothing else, and if there is any.
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

// Only returns v with those of its versions for which keep returns true, and nil if there are none. It does not change v.
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
	some, err := parseVersions(v.Document, nil, v.ofProvider, nil, func(l Listed) bool { return kept[l.Spelling] })
	if err != nil {
		return nil, err
	}
	return some.like(v), nil
}
