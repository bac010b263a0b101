package release

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

// Names and bounds of the files of a release.
const (
	fileSums      = "SHA256SUMS"
	fileSignature = "SHA256SUMS.sig"
	fileRelease   = "release.json"
	fileKey       = "keys/%02d.asc"

	form     = 1       // version of the form of the files
	maxFile  = 1 << 20 // bytes of release.json
	maxFiles = maxKeys + 3
	maxAll   = 4 << 20 // bytes of all files
)

// A document is the content of release.json: everything that is not in the other files. Its keys have no armor.
type document struct {
	Form      int                      `json:"release"`
	Protocols []string                 `json:"protocols,omitempty"`
	Archives  []Archive                `json:"platforms"`
	Keys      []Key                    `json:"keys,omitempty"`
	Packages  map[string]ArchiveHashes `json:"packages,omitempty"`
	Unsigned  bool                     `json:"unsigned,omitempty"`
}

// Files returns the content of r by file name. Equal releases have equal files:
//
//	SHA256SUMS       the checksums, unchanged
//	SHA256SUMS.sig   their signature, unchanged; missing if the signature is empty
//	keys/00.asc      the first key, armored as the registry lists it, and so on
//	release.json     the rest
//
// In a directory with these files, "gpg --verify SHA256SUMS.sig" works. Files returns a [modproxy.ErrInvalid] if r
// breaks the rules of [Release], or if none of its keys made its signature.
func (r *Release) Files() (map[string][]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return r.encode()
}

func (r *Release) encode() (map[string][]byte, error) {
	d := document{form, r.Protocols, r.Archives, slices.Clone(r.Keys), r.Packages, r.Unsigned}
	files := map[string][]byte{fileSums: r.Sums}
	if len(r.Signature) > 0 {
		files[fileSignature] = r.Signature
	}
	for i, k := range r.Keys {
		files[fmt.Sprintf(fileKey, i)] = []byte(k.Armor)
		d.Keys[i].Armor = ""
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(d); err != nil {
		return nil, invalid("release: %w", err)
	}
	if text.Len() > maxFile {
		return nil, invalid("release: %s has more than the %d bytes that are allowed", fileRelease, maxFile)
	}
	files[fileRelease] = text.Bytes()
	return files, nil
}

// Parse is the inverse of [Release.Files] and accepts only its results. It verifies the signature and ignores all
// times; use [Verify] to check whether the signature is still valid. The release shares the memory of files.
//
// Errors: [modproxy.ErrInvalid].
func Parse(files map[string][]byte) (*Release, error) {
	if len(files) > maxFiles || len(files[fileRelease]) > maxFile {
		return nil, invalid("release: more than the %d files or the %d bytes that are allowed", maxFiles, maxFile)
	}
	var d document
	decoder := json.NewDecoder(bytes.NewReader(files[fileRelease]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, invalid("release: %s: %w", fileRelease, err)
	}
	if d.Form != form {
		return nil, invalid("release: %s is of form %d: this modproxy reads %d", fileRelease, d.Form, form)
	}
	r := &Release{
		Protocols: d.Protocols, Archives: d.Archives, Keys: d.Keys, Packages: d.Packages, Unsigned: d.Unsigned,
		Sums: files[fileSums], Signature: files[fileSignature],
	}
	for i := range r.Keys {
		r.Keys[i].Armor = string(files[fmt.Sprintf(fileKey, i)])
	}
	again, err := r.Files()
	if err != nil {
		return nil, err
	}
	if !maps.EqualFunc(files, again, bytes.Equal) {
		return nil, invalid("release: its files differ from those that modproxy writes")
	}
	return r, nil
}

var limits = pack.Limits{Entries: maxFiles + 1, Bytes: maxAll, Path: 32, Packed: maxAll} // one more for the directory of keys

// Pack packs the files of r in dir, as [pack.Builder.Package] does.
//
// Errors: those of [Release.Files], [modproxy.ErrUnavailable].
func (r *Release) Pack(dir string) (*modproxy.Package, error) {
	files, err := r.Files()
	if err != nil {
		return nil, err
	}
	b, err := pack.New(dir, limits)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := b.File(name, false, bytes.NewReader(files[name])); err != nil {
			return nil, err
		}
	}
	return b.Package(context.Background(), dir, "") // the package is small
}

// Open reads a release that [Release.Pack] packed. It reads p to the end.
//
// Errors: [modproxy.ErrInvalid], and those of p.
func Open(p io.Reader) (*Release, error) {
	var packed bytes.Buffer
	if _, err := pack.Verify(io.TeeReader(p, &packed), limits); err != nil { // reads all of p
		return nil, err
	}
	unzipped, err := gzip.NewReader(&packed)
	if err != nil {
		return nil, invalid("release: %w", err)
	}
	files := make(map[string][]byte)
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return Parse(files)
		}
		if err == nil {
			files[h.Name], err = io.ReadAll(archive)
		}
		if err != nil {
			return nil, invalid("release: %w", err)
		}
	}
}
