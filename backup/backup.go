// Package backup writes a data directory to a file, and restores it.
//
// # Use
//
//	summary, err := source.Write(ctx, w, backup.Options{Packages: true})
//
//	r, err := backup.NewReader(file) // refuses other files, and backups of a newer modproxy
//	err = r.Restore(ctx, dir)        // dir is claimed by datadir.BeginRestore
//
// # Content
//
// A backup has everything that cannot be downloaded again: the ledger with its private key, which also has the decisions and the imported
// bundles; tokens, and the key of signed paths; the tables of package history. With packages, it has all records of the store and the
// packages that they need. It does not have the quarantine, downloads in progress and the last uses of packages: restored packages count as
// used at the restore.
//
// # Invariants
//
//   - Everything that was acknowledged before Write began is in the backup, unless it was removed, evicted or is damaged. Write reports
//     damage.
//   - A package is in the backup only if the ledger in the backup covers it. Write reads the store first and the ledger last, because
//     modproxy records a version before it stores the package. So the ledger may have records of later versions. That does no harm: their
//     packages are downloaded again and must match.
//   - A package precedes the records that need it. If it is removed while Write runs, the backup has neither.
//   - Neither side holds a package in memory. Write does not count as a use of packages.
//   - A change or loss of any byte is an error of the reader. A backup is not signed by anything outside of it: it has the key itself. A
//     person who can change the file can change the ledger, and a person who can read it can sign for the ledger.
//
// # The form
//
// A backup is a tar archive as in package exacttar, not compressed, because packages are. Its files are, in this order:
//
//	manifest                the line "modproxy backup 1" and a line of JSON, a [Manifest]
//	packages/DIGEST         packages, each before a file of records that needs it; DIGEST is the SHA-256
//	records/000001.json     lines of JSON, records of the store; and so on
//	auth/tokens.json        the tokens, if the file exists
//	auth/key                the key of signed paths, if the file exists
//	ledger/key              the private key of the ledger
//	ledger/export           the ledger, as "modproxy ledger export" writes it
//	SHA256SUMS              the SHA-256 of all other files, in their order, in the form of sha256sum
//
// The sums come last, so that the backup can be written to a pipe. Names are compared with these and never used as paths.
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

	maxManifest = 64 << 10 // in bytes, as the bounds below
	maxSecret   = 16 << 20
	maxRecords  = 128 << 20 // a record of 64 MiB in base64, and those before it
	fullRecords = 1 << 20   // a file of records ends when it is larger
)

// Secrets are the names of the files of credentials, below a data directory and in a backup.
var Secrets = []string{"auth/tokens.json", "auth/key"}

// Manifest is the beginning of a backup.
type Manifest struct {
	Program      string    `json:"program"` // the version of modproxy that wrote it
	Created      time.Time `json:"created"` // when it was begun
	Key          string    `json:"key"`     // the verifier key of the ledger
	Least        int64     `json:"least"`   // entries of the ledger when the backup was begun; it has at least as many
	WithPackages bool      `json:"with_packages,omitempty"`
}

// Summary counts the content of a backup.
type Summary struct {
	Manifest
	Entries  int64        `json:"entries"` // of the ledger in the backup
	Records  int          `json:"records"` // of the store
	Packages store.Amount `json:"packages"`
}

// record is the form of a record of the store. Its key and value may be any bytes.
type record struct {
	Kind  store.Kind        `json:"kind"`
	Key   []byte            `json:"key"`
	Value []byte            `json:"value"`
	Needs []modproxy.Digest `json:"needs,omitempty"`
}

func recordsName(n int) string { return fmt.Sprintf("%s%06d.json", recordsPrefix, n) }

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
}

// sums is the text of the file SHA256SUMS.
type sums struct{ bytes.Buffer }

func (s *sums) add(name string, h hash.Hash) { fmt.Fprintf(s, "%x  %s\n", h.Sum(nil), name) }

// formatOf matches the first line of a manifest, and program the version in the second line of any format.
var (
	formatOf = regexp.MustCompile(`^` + headerPrefix + `([1-9][0-9]{0,8})\n`)
	program  = regexp.MustCompile(`"program":"([ -!#-\[\]-~]{1,100})"`)
)

func (m Manifest) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	return fmt.Appendf(nil, "%s%d\n%s\n", headerPrefix, format, text), err
}

// parseManifest is the inverse of encode. It refuses backups in a later format, and names the version that wrote them.
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
		return m, wrong("the backup has format %d, and this modproxy reads formats up to %d: restore it with %s, which wrote it, or a newer one", n, format, by)
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

// A Reader reads a backup from start to end.
type Reader struct {
	Manifest

	tar  exacttar.Reader
	sums sums
	last *File
}

// NewReader reads the manifest. Errors are [modproxy.ErrInvalid] for anything but a backup that this modproxy reads, and those of r.
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

// File is a file in a backup. Its content is verified only when [Reader.Next] has returned [io.EOF].
type File struct {
	Name string
	Size int64
	io.Reader
	hash hash.Hash
}

// Next returns the next file. It reads the rest of the one before. If everything is verified, the error is [io.EOF].
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
		return nil, wrong("the backup ends without its sums")
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
		return nil, wrong("%s was changed: its sum is not that in the backup", differing(is, was))
	}
	if err := b.tar.End(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// text reads the whole file, of at most most bytes.
func (f *File) text(most int64) ([]byte, error) {
	if f.Size > most {
		return nil, wrong("%s has %d bytes, and at most %d are right", f.Name, f.Size, most)
	}
	return io.ReadAll(f)
}

// differing returns the name in the first line that differs between two lists of sums.
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
