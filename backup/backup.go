// Package backup writes a data directory to a file, and restores it.
//
// # Use
//
//	summary, err := source.Write(ctx, w, backup.Options{Packages: true})
//
//	r, err := backup.NewReader(file)        // refuses other files, and backups in a newer format
//	summary, err := r.Restore(ctx, dir)     // the caller has claimed dir with datadir.BeginRestore
//
// # Content
//
// A backup has everything that cannot be downloaded again: the ledger, whose records include decisions and imported bundles, with its private
// key; tokens, and the key of signed paths; the tables of package history. With [Options.Packages], it has all records of the store and the
// packages that they need. It has no quarantined files and no downloads in progress. It has no times of last use: restored packages count as
// used at the time of the restore.
//
// # Invariants
//
//   - Everything that was acknowledged before Write began is in the backup, except removed, evicted and damaged content. Write reports
//     damage.
//   - A package is in the backup only if the ledger in the backup covers it. Write reads the store first and the ledger last, because
//     modproxy records a version before it stores the package. So the ledger can have records of versions whose packages are not in the
//     backup. These packages are downloaded again, and must match.
//   - A package precedes the records that need it. If a package is removed before Write opens it, the backup has neither the package nor its
//     records.
//   - Write and Restore do not hold packages in memory. Write does not count as a use of packages.
//   - A [Reader] returns an error if any byte of a backup is changed or missing. This protects against damage, not against attackers: the
//     backup has the key of the ledger, so a person who can read it can sign for the ledger, and a person who can write it can change the
//     ledger.
//
// # The form
//
// A backup is a tar archive as in package exacttar, not compressed, because packages are. Its files are, in this order:
//
//	manifest                the line "modproxy backup 1" and a line of JSON, a [Manifest]
//	packages/DIGEST         packages, each before the records that need it; DIGEST is the SHA-256
//	records/000001.json     records of the store, a line of JSON each; further files have the next numbers
//	auth/tokens.json        the tokens, if the file exists
//	auth/key                the key of signed paths, if the file exists
//	ledger/key              the private key of the ledger
//	ledger/export           the ledger, as "modproxy ledger export" writes it
//	SHA256SUMS              the SHA-256 of all other files, in their order, as sha256sum prints them
//
// The sums are at the end, so that Write can write to a pipe. Restore accepts only these names. Paths in the restored directory come from
// constants and digests.
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/exacttar"
	"github.com/modproxy/modproxy/store"
)

const (
	format       = 1
	headerPrefix = "modproxy backup "

	manifestName   = "manifest"
	packagesPrefix = "packages/"
	recordsPrefix  = "records/"
	ledgerKeyName  = "ledger/key"
	ledgerName     = "ledger/export"
	sumsName       = "SHA256SUMS"

	// Sizes in bytes.
	maxManifest = 64 << 10
	maxSecret   = 16 << 20
	maxRecords  = 128 << 20 // a record of 64 MiB in base64, and the records before it
	fullRecords = 1 << 20   // Write ends a file of records when it reaches this size
)

// Secrets are the names of the files with credentials. The names are relative to the data directory, and the same in a backup.
var Secrets = []string{"auth/tokens.json", "auth/key"}

// Manifest describes a backup. It is the first file in it.
type Manifest struct {
	Program      string    `json:"program"` // the version of modproxy that wrote it
	Created      time.Time `json:"created"` // when Write began
	Key          string    `json:"key"`     // the verifier key of the ledger
	Least        int64     `json:"least"`   // number of entries of the ledger when Write began: the backup has at least as many
	WithPackages bool      `json:"with_packages,omitempty"`
}

// Summary counts the content of a backup.
type Summary struct {
	Manifest
	Entries  int64        `json:"entries"` // number of entries of the ledger
	Records  int          `json:"records"` // number of records of the store
	Packages store.Amount `json:"packages"`
}

// record is a record of the store in a backup. Key and value are any bytes, in base64.
type record struct {
	Kind  store.Kind        `json:"kind"`
	Key   []byte            `json:"key"`
	Value []byte            `json:"value"`
	Needs []modproxy.Digest `json:"needs,omitempty"`
}

func recordsName(n int) string { return fmt.Sprintf("%s%06d.json", recordsPrefix, n) }

// wrong returns an error that is [modproxy.ErrInvalid].
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
}

// sums is the text of the file SHA256SUMS.
type sums struct{ bytes.Buffer }

func (s *sums) add(name string, h hash.Hash) { fmt.Fprintf(s, "%x  %s\n", h.Sum(nil), name) }

// formatOf matches the first line of a manifest. program matches the version of modproxy in a manifest of any format.
var (
	formatOf = regexp.MustCompile(`^` + headerPrefix + `([1-9][0-9]{0,8})\n`)
	program  = regexp.MustCompile(`"program":"([ -!#-\[\]-~]{1,100})"`)
)

func (m Manifest) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	return fmt.Appendf(nil, "%s%d\n%s\n", headerPrefix, format, text), err
}

// parseManifest parses the result of encode. For a backup in a newer format, its error names the version that wrote the backup.
func parseManifest(text []byte) (m Manifest, err error) {
	first := formatOf.FindSubmatch(text)
	if first == nil {
		return m, wrong("this is not a backup: its manifest does not begin with %q", headerPrefix)
	}
	if n, _ := strconv.Atoi(string(first[1])); n > format {
		by := "a newer modproxy"
		if p := program.FindSubmatch(text); p != nil {
			by = "modproxy " + string(p[1])
		}
		return m, wrong("the backup has format %d, and this modproxy reads formats up to %d: restore it with %s, which wrote it, or with a newer version", n, format, by)
	}
	if err := json.Unmarshal(text[len(first[0]):], &m); err != nil {
		return m, wrong("the manifest of the backup: %v", err)
	}
	again, err := m.encode()
	if err == nil && !bytes.Equal(again, text) {
		err = wrong("the manifest of the backup was changed")
	}
	return m, err
}

// A Reader reads a backup from start to end. It is not safe for concurrent use.
type Reader struct {
	Manifest

	tar  exacttar.Reader
	sums sums
	last *File
}

// NewReader returns a reader of the backup in r, after reading the manifest. The error is [modproxy.ErrInvalid] if r is not a backup, or has a
// newer format. Other errors are those of r.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{tar: exacttar.Reader{R: r, What: "backup", Remedy: "copy it again, or use another backup"}}
	text, err := b.tar.First(manifestName, maxManifest)
	if err == nil {
		b.Manifest, err = parseManifest(text)
	}
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write(text)
	b.sums.add(manifestName, h)
	return b, nil
}

// File is a file in a backup. Do not trust its content before [Reader.Next] has returned [io.EOF].
type File struct {
	Name string
	Size int64
	io.Reader
	hash hash.Hash
}

// Next returns the next file, after reading the rest of the previous one. The error is [io.EOF] at the end of a backup whose content is
// verified, and [modproxy.ErrInvalid] for a backup that was changed or cut off.
func (b *Reader) Next() (*File, error) {
	if b.last != nil {
		if _, err := io.Copy(io.Discard, b.last); err != nil {
			return nil, err
		}
		if digest, ok := strings.CutPrefix(b.last.Name, packagesPrefix); ok && digest != fmt.Sprintf("%x", b.last.hash.Sum(nil)) {
			return nil, wrong("before byte %d, the package %s was changed", b.tar.At, digest)
		}
		b.sums.add(b.last.Name, b.last.hash)
	}
	name, size, err := b.tar.Next()
	if errors.Is(err, io.EOF) {
		return nil, wrong("the backup ends without its file %s: copy it again, or use another backup", sumsName)
	}
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	b.last = &File{name, size, io.TeeReader(b.tar.Content(name, size), h), h}
	if name != sumsName {
		return b.last, nil
	}
	is, err := b.last.text(int64(b.sums.Len()))
	if err != nil {
		return nil, err
	}
	if was := b.sums.Bytes(); !bytes.Equal(is, was) {
		return nil, wrong("%s was changed: its sum differs from that in the backup: copy it again, or use another backup", differing(is, was))
	}
	if err := b.tar.End(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// text returns the content of the file, if it has at most most bytes.
func (f *File) text(most int64) ([]byte, error) {
	if f.Size > most {
		return nil, wrong("%s has %d bytes; the maximum is %d", f.Name, f.Size, most)
	}
	return io.ReadAll(f)
}

// differing returns the name in the first line of b that a does not have in the same place.
func differing(a, b []byte) string {
	for line := range bytes.Lines(b) {
		if !bytes.HasPrefix(a, line) {
			_, name, _ := bytes.Cut(bytes.TrimSpace(line), []byte("  "))
			return string(name)
		}
		a = a[len(line):]
	}
	return sumsName
}
