// Package bundle exports a part of a registry into a signed file, and imports it on another network.
//
// # Use
//
// An [Exporter] writes bundles. An [Importer] reads them into a ledger and a cache. [Open] serves a bundle as a registry without an
// import.
//
// # Invariants
//
// Imported content has the digest in the other side's ledger, under a signature of a key that is trusted here. It never replaces
// content that is recorded here. A change of any byte of a bundle is an error.
//
// # The form
//
// A bundle is a tar archive (USTAR) of regular files, written and read from start to end. One selection of one ledger always gives the
// same bytes. Its files are:
//
//	manifest        a note (golang.org/x/mod/sumdb/note) with one signature, of the key of a ledger; at most 1 MiB.
//	                Its text is the line "modproxy bundle 1" and a line of JSON, a [Manifest].
//	index           a line of JSON, an [Index]: the packages, and the content of earlier bundles; at most 64 MiB
//	000001.json     a line of JSON, [PackageEntry] about the versions that have the first package of the index; at most 16 MiB
//	000001.tar.gz   that package, in the form of package pack; or 000001.zip, the package of a provider for one platform
//	000002.json     and so on
//
// The manifest has the size and the SHA-256 of the index, and the index those of all other files. So the header of each file is known
// before it is read: mode 0644, and zero or empty values otherwise. The padding of blocks is zero. Nothing follows the two zero blocks at
// the end. Names are never taken from the file. A reader stops at the first other byte.
//
// # The chain
//
// The id of a bundle is the SHA-256 of its manifest's text. A bundle made since another bundle continues its chain: the manifest has the
// ids of all earlier bundles, the index lists their content, and the files are the new content. Each bundle can be imported only after the
// one before it, which the importing ledger records. Along a chain, the tree of the exporting ledger only grows. The manifest proves that.
//
// # Trust
//
// The operator names the trusted signers of manifests. A proof of inclusion shows that the record of each version is in the tree of the
// exporting ledger. The content of a package is verified by its bytes, and a release of a provider must contain the recorded archives and
// keys. Times are those of the exporting side: the age of a version counts since it was first seen there. A trusted signer can so make
// versions old enough for a rule with a minimum age.
//
// The result of an import does not depend on the order of the packages. Exports put releases of providers first; a package for a platform
// is held in a file until all releases of its provider were read.
//
// An import adds missing records to the ledger and changes nothing else. A version with other content than recorded here is refused, as
// from a registry. Imports take over decisions that deny or deprecate, and others only if the operator asks for it. They never replace a
// decision that was made here and denies.
package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/ledger"
)

const (
	header      = ledger.BundlePrefix + "1\n"
	maxManifest = 1 << 20 // in bytes, as the bounds below
	maxIndex    = 64 << 20
	maxFacts    = 16 << 20
)

// Content is the size and the digest of a file.
type Content struct {
	Size   int64           `json:"size"`
	Digest modproxy.Digest `json:"sha256"`
}

func contentOf(text []byte) Content { return Content{int64(len(text)), sha256.Sum256(text)} }

// Manifest is the signed part of a bundle.
type Manifest struct {
	Before []modproxy.Digest `json:"before,omitempty"` // ids of the earlier bundles of the chain, the first one first
	Tree   int64             `json:"tree"`             // number of entries in the tree of the ledger
	Hash   tlog.Hash         `json:"hash"`             // of that tree
	Proof  tlog.TreeProof    `json:"proof,omitempty"`  // that the tree of the bundle before is its beginning
	Index  Content           `json:"index"`
}

// Index lists the content of a bundle.
type Index struct {
	Before    []Before  `json:"before,omitempty"`    // the content of earlier bundles of the chain, ordered by version
	Decisions []string  `json:"decisions,omitempty"` // about modules in the index, in the text form of a ledger, in their order
	Packages  []Package `json:"packages"`
}

// Before is a version in an earlier bundle of the chain.
type Before struct {
	Version Version      `json:"version"`
	Sum     modproxy.Sum `json:"sum"`
	Bundle  int          `json:"bundle"`         // number of the bundle, from 1
	Gone    bool         `json:"gone,omitempty"` // not selected any more
}

// Package is a package and the versions that have it.
type Package struct {
	Sum      modproxy.Sum `json:"sum"`
	Package  Content      `json:"package"`
	Facts    Content      `json:"facts"`
	Versions []Version    `json:"versions"`
}

// isZip reports whether p is the package of a provider for one platform.
func (p Package) isZip() bool {
	return !slices.ContainsFunc(p.Versions, func(v Version) bool { return !v.IsArchive() })
}

// PackageEntry describe the versions of a package, in the order of the index.
type PackageEntry struct {
	Notes    string         `json:"notes,omitempty"` // as in [modproxy.Package]
	Versions []VersionEntry `json:"versions"`
}

// VersionEntry describes one version.
type VersionEntry struct {
	Number    int64            `json:"number"`             // number of the entry in the ledger
	Record    string           `json:"record"`             // text of the entry
	Proof     tlog.RecordProof `json:"proof"`              // that the entry is in the tree
	Subdir    string           `json:"subdir,omitempty"`   // as in [modproxy.Package]
	Listed    json.RawMessage  `json:"listed"`             // its entry in the registry's document
	Seen      time.Time        `json:"seen,omitzero"`      // first-seen time, if known
	Published time.Time        `json:"published,omitzero"` // date of publication according to the registry
}

// Version is a version whose JSON form is the module address, a blank and the version.
type Version struct{ modproxy.Ref }

// MarshalText implements [encoding.TextMarshaler].
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; its error is [modproxy.ErrInvalid].
func (v *Version) UnmarshalText(text []byte) (err error) {
	address, version, _ := strings.Cut(string(text), " ")
	if v.Address, err = hostname.ParseAddress(address, ""); err == nil {
		version, err = modproxy.CanonicalVersion(version)
		v.Ref = v.At(version)
	}
	if err == nil && v.String() != string(text) {
		err = fmt.Errorf("%w: version %.200q", modproxy.ErrInvalid, text)
	}
	return err
}

// A Head is the beginning of a bundle: the manifest and the index.
type Head struct {
	ID     modproxy.Digest
	Signer string // name and number of the key
	Manifest
	Index     *Index
	Decisions []modproxy.Decision // parsed from Index
}

// Chain returns the id of the chain: that of its first bundle.
func (h *Head) Chain() modproxy.Digest {
	return append(h.Before[:len(h.Before):len(h.Before)], h.ID)[0]
}

// Sequence returns the position of the bundle in its chain, from 1.
func (h *Head) Sequence() int64 { return int64(len(h.Before)) + 1 }

// Root returns the tree of the manifest.
func (h *Head) Root() tlog.Tree { return tlog.Tree{N: h.Tree, Hash: h.Hash} }

// Count returns the number of versions in the bundle, without those of earlier bundles.
func (h *Head) Count() (n int) {
	for _, p := range h.Index.Packages {
		n += len(p.Versions)
	}
	return n
}

// encode returns v as a line of JSON.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return wrong("%w: a newer modproxy may have written it: upgrade this one", err)
	}
	return nil
}

// wrong returns the error for a file that is not a bundle, or was changed.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
}

// Untrusted is the error for a bundle whose signer is not trusted: [modproxy.ErrDenied].
type Untrusted struct{ Signer string }

func (e *Untrusted) Error() string {
	return "the bundle is signed by the key " + e.Signer + ", which is not trusted here: compare it with the output of \"modproxy ledger key\" " +
		"on the exporting side, and add the whole key to bundle.keys or --key"
}

func (e *Untrusted) Unwrap() error { return modproxy.ErrDenied }

// openManifest reads a manifest signed by a key of trust.
func openManifest(text []byte, trust note.Verifiers) (h Head, err error) {
	n, err := note.Open(text, trust)
	if unverified, ok := errors.AsType[*note.UnverifiedNoteError](err); ok && strings.HasPrefix(unverified.Note.Text, ledger.BundlePrefix) {
		sig := unverified.Note.UnverifiedSigs[0]
		return h, &Untrusted{fmt.Sprintf("%s+%08x", sig.Name, sig.Hash)}
	} else if err != nil {
		return h, wrong("the manifest is not as it was signed: %w", err)
	}
	sig := n.Sigs[0]
	raw, err := base64.StdEncoding.Strict().DecodeString(sig.Base64)
	if again := n.Text + "\n— " + sig.Name + " " + base64.StdEncoding.EncodeToString(raw) + "\n"; err != nil || again != string(text) {
		return h, wrong("the manifest has more than its text and one signature")
	}
	rest, ok := strings.CutPrefix(n.Text, header)
	if !ok && strings.HasPrefix(n.Text, ledger.BundlePrefix) {
		return h, wrong("the bundle was written by a newer modproxy: upgrade this one")
	} else if !ok {
		return h, wrong("the signed text is not the manifest of a bundle")
	}
	h.ID, h.Signer = sha256.Sum256([]byte(n.Text)), fmt.Sprintf("%s+%08x", sig.Name, sig.Hash)
	if err := decode([]byte(rest), &h.Manifest); err != nil {
		return h, fmt.Errorf("the manifest: %w", err)
	}
	if h.Manifest.Index.Size < 0 || h.Manifest.Index.Size > maxIndex || h.Tree < 1 {
		return h, wrong("the manifest has impossible values")
	}
	return h, nil
}

// check checks the consistency of the index and parses its decisions.
func (h *Head) check() error {
	seen, sum := map[Version]bool{}, int64(0)
	for i, p := range h.Index.Packages {
		_, err := p.Sum.Hash()
		switch sum += p.Package.Size; {
		case err != nil:
			return fmt.Errorf("the index: %w", err)
		case p.Package.Size <= 0 || p.Package.Size > maxEntry || p.Facts.Size <= 0 || p.Facts.Size > maxFacts || len(p.Versions) == 0 || sum < 0:
			return wrong("the index: package %d is invalid", i+1)
		}
		for _, v := range p.Versions {
			if seen[v] {
				return wrong("the index has %s twice", v)
			}
			seen[v] = true
		}
	}
	for _, b := range h.Index.Before {
		if b.Bundle < 1 || b.Bundle > len(h.Before) {
			return wrong("the index: %s is listed from bundle %d, but the chain has %d", b.Version, b.Bundle, len(h.Before))
		}
	}
	for _, text := range h.Index.Decisions {
		d, err := ledger.ParseDecision([]byte(text))
		if err != nil {
			return fmt.Errorf("the index: %w", err)
		}
		h.Decisions = append(h.Decisions, d)
	}
	return nil
}

// parse reads the record in a fact about a version, and verifies its proof against the tree of h.
func (h *Head) parse(v Version, f VersionEntry) (modproxy.Record, error) {
	rec, err := ledger.ParseRecord([]byte(f.Record))
	if err != nil {
		return rec, err
	}
	if rec.Ref != v.Ref {
		return rec, wrong("the record of %s is that of %s", v, rec.Ref)
	}
	if f.Subdir != "" && !fs.ValidPath(f.Subdir) {
		return rec, wrong("the directory of %s is invalid", v)
	}
	if err := tlog.CheckRecord(f.Proof, h.Tree, h.Hash, f.Number, tlog.RecordHash([]byte(f.Record))); err != nil {
		return rec, wrong("the record of %s has no valid proof of its place in the ledger: %w", v, err)
	}
	return rec, nil
}
