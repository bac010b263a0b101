package modproxy

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
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
	Entry    json.RawMessage // the whole entry
}

// maxListed bounds the number of versions of one module.
const maxListed = 100_000

// ParseVersions reads a registry's versions document
// (https://opentofu.org/docs/internals/module-registry-protocol/). Of several
// modules the first counts, as for the clients. Entries whose version no client
// can parse are dropped and counted.
//
// Errors: [ErrInvalid] when the document has another shape, or entries of which
// none can be parsed; [ErrNotFound] when it lists nothing.
func ParseVersions(document []byte) (*Versions, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(document, &top); err != nil {
		return nil, fmt.Errorf("%w: versions document: %w", ErrInvalid, err)
	}
	if top["modules"] == nil {
		return nil, fmt.Errorf("%w: versions document: it has no modules", ErrInvalid)
	}
	var modules []map[string]json.RawMessage
	if err := json.Unmarshal(top["modules"], &modules); err != nil {
		return nil, fmt.Errorf("%w: versions document: modules: %w", ErrInvalid, err)
	}
	if len(modules) == 0 || modules[0] == nil {
		return nil, fmt.Errorf("%w: the versions document has no module", ErrNotFound)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(orNull(modules[0]["versions"]), &entries); err != nil {
		return nil, fmt.Errorf("%w: versions document: versions: %w", ErrInvalid, err)
	}
	if len(entries) > maxListed {
		return nil, fmt.Errorf("%w: versions document: %d versions, more than the %d that are allowed", ErrInvalid, len(entries), maxListed)
	}
	var list []Listed
	for _, entry := range entries {
		if l, ok := parseListed(entry); ok {
			list = append(list, l)
		}
	}
	if len(list) == 0 && len(entries) > 0 {
		return nil, fmt.Errorf("%w: versions document: none of its %d versions is one that a client can parse", ErrInvalid, len(entries))
	}
	v, err := makeVersions(top, modules[0], list)
	if err != nil {
		return nil, err
	}
	v.Dropped = len(entries) - len(list)
	return v, nil
}

func parseListed(entry json.RawMessage) (Listed, bool) {
	var fields struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(entry, &fields); err != nil {
		return Listed{}, false
	}
	version, err := ParseVersion(fields.Version)
	if err != nil {
		return Listed{}, false
	}
	return Listed{Version: version, Spelling: fields.Version, Entry: entry}, true
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// makeVersions writes the document that has top's and module's fields and list.
func makeVersions(top, module map[string]json.RawMessage, list []Listed) (*Versions, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the versions document lists no version", ErrNotFound)
	}
	entries := make([]json.RawMessage, len(list))
	for i, l := range list {
		entries[i] = l.Entry
	}
	var err error
	if module["versions"], err = json.Marshal(entries); err != nil {
		return nil, fmt.Errorf("%w: versions document: %w", ErrInvalid, err)
	}
	if top["modules"], err = json.Marshal([]map[string]json.RawMessage{module}); err != nil {
		return nil, fmt.Errorf("%w: versions document: %w", ErrInvalid, err)
	}
	document, err := json.Marshal(top)
	if err != nil {
		return nil, fmt.Errorf("%w: versions document: %w", ErrInvalid, err)
	}
	sum := sha256.Sum256(document)
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	w.Write(document) // a bytes.Buffer takes everything
	w.Close()
	return &Versions{
		Document:   document,
		Compressed: compressed.Bytes(),
		ETag:       `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`,
		List:       list,
	}, nil
}

// With is v with the given entries listed as well. Entries that v lists already
// change nothing; v itself is not changed.
func (v *Versions) With(more []Listed) (*Versions, error) {
	have := make(map[string]bool, len(v.List))
	for _, l := range v.List {
		have[l.Version.String()] = true
	}
	list := slices.Clone(v.List)
	for _, l := range more {
		if !have[l.Version.String()] {
			list = append(list, l)
		}
	}
	if len(list) == len(v.List) {
		return v, nil
	}
	var top map[string]json.RawMessage
	var modules []map[string]json.RawMessage
	if err := json.Unmarshal(v.Document, &top); err != nil {
		return nil, fmt.Errorf("%w: versions document: %w", ErrInvalid, err)
	}
	if err := json.Unmarshal(top["modules"], &modules); err != nil {
		return nil, fmt.Errorf("%w: versions document: modules: %w", ErrInvalid, err)
	}
	merged, err := makeVersions(top, modules[0], list)
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
