package cache

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
)

// Index keeps the records of what is kept. Its methods are safe for concurrent
// use; absent is [fs.ErrNotExist]; a record is durable when the method that puts
// it returns; a record that is not as it was put is an error, never a value.
// Package cachetest has the suite that every implementation passes.
type Index interface {
	Versions(m modproxy.Module) (VersionsRecord, error)
	// PutVersions replaces what was put before.
	PutVersions(m modproxy.Module, rec VersionsRecord) error
	Package(m modproxy.Module, version string) (PackageRecord, error)
	// PutPackage replaces a record of the same Sum. When there is one of another
	// Sum it changes nothing, and its error is [modproxy.ErrChanged]; of several
	// that put the first record of a version at once, one does.
	PutPackage(m modproxy.Module, version string, rec PackageRecord) error
	// Packages yields the package records of m, each once and in any order, or
	// those of all modules when m is the zero Module. Records may be put
	// meanwhile; whether they are yielded is open. An error comes with the module
	// and version of the record it is about, where they are known, and does not
	// end the sequence unless the index cannot be read at all.
	Packages(m modproxy.Module) iter.Seq2[Kept, error]
	// TrimVersions removes versions records until those that stay have no more
	// than limit bytes: first those of modules of which there is no package
	// record, and of these first the ones that were asked for longest ago. What is
	// removed is asked for again. One that is put meanwhile stays. Each counts as
	// its document and [VersionsOverhead].
	TrimVersions(limit int64) (Trimmed, error)
}

// VersionsOverhead is what a versions record counts beside its document, in bytes,
// so that small ones have a bound in number.
const VersionsOverhead = 1 << 10

// Trimmed is what [Index.TrimVersions] has removed.
type Trimmed struct {
	Documents int
	Bytes     int64
}

// VersionsRecord is the versions document that is kept of one module.
type VersionsRecord struct {
	// Document is the Document of [modproxy.Versions], in gzip form or as it is. An
	// empty one records that there was no such module when it was last asked for.
	Document []byte    `json:"-"`
	Dropped  int       `json:"dropped,omitempty"` // as in [modproxy.Versions]
	Time     time.Time `json:"time"`              // when the registry gave the answer
	Asked    time.Time `json:"asked"`             // when it was asked; what Fresh and MaxStale count from
}

// PackageRecord is what is kept about the package of one version.
type PackageRecord struct {
	Digest  modproxy.Digest `json:"digest"`           // names the blob
	Sum     modproxy.Sum    `json:"sum"`              // names the content; never changes
	Size    int64           `json:"size"`             // of the blob, in bytes
	Subdir  string          `json:"subdir,omitempty"` // the module's directory in the package
	Source  modproxy.Source `json:"source,omitzero"`
	Notes   string          `json:"notes,omitempty"`  // the package's, when it was first kept
	Fetched time.Time       `json:"fetched"`          // the package's time, or when it was fetched
	Dropped time.Time       `json:"dropped,omitzero"` // since when upstream does not list the version; zero while it does
	// Removed tells that the package was removed on purpose while another version
	// needs the same bytes. It is fetched again when it is asked for.
	Removed bool `json:"removed,omitempty"`
}

// Reference is a blob that a record needs.
type Reference struct {
	Digest modproxy.Digest
	By     string // what the record is about, for people; of a package what [Kept.String] says
}

// Kept is a package record with what it is about.
type Kept struct {
	Module  modproxy.Module
	Version string
	Record  PackageRecord
}

// String is the version, as people write it.
func (k Kept) String() string { return k.Module.String() + " " + k.Version }

// Blobs keeps the bytes of packages by their digest. Its methods are safe for
// concurrent use, and absent is [fs.ErrNotExist]. Package cachetest has the
// suite that every implementation passes.
type Blobs interface {
	// Put keeps what r gives. It is durable when Put returns, and not there at
	// all when Put fails: because of r, of the context, of the storage, or
	// because the bytes are not those of d ([ErrDamaged]). A blob that is there
	// already is left alone, unread, and so is r.
	Put(ctx context.Context, d modproxy.Digest, r io.Reader) error
	// Open opens a blob at its start; the caller closes it. Whether its bytes
	// are those of d is for the caller to check. It may be read to its end
	// whatever happens to the blob meanwhile. The error is [ErrDamaged] where
	// there is something that cannot be a blob.
	Open(d modproxy.Digest) (Blob, error)
	// Stat is the size of a blob. Errors are those of Open.
	Stat(d modproxy.Digest) (int64, error)
	// Quarantine sets a damaged blob aside, as evidence: d is absent afterwards.
	Quarantine(d modproxy.Digest) error
	// Remove removes a blob: d is absent afterwards. A crash may bring it back.
	Remove(d modproxy.Digest) error
	// All yields what is there, each once and in any order: also what Open would
	// find damaged. Blobs may be put and removed meanwhile; whether they are
	// yielded is open. An error ends the sequence.
	All() iter.Seq2[BlobInfo, error]
}

// BlobInfo is a blob as [Blobs.All] finds it.
type BlobInfo struct {
	Digest modproxy.Digest
	Size   int64     // in bytes
	Time   time.Time // when it was put
}

// Uses keeps when blobs were last used. What it keeps is no more than a help: it
// may be older than the truth. Its methods are safe for concurrent use. Package
// cachetest has the suite that every implementation passes.
type Uses interface {
	// PutUses replaces what is kept of the digests in uses, of all or of none.
	PutUses(uses []Use) error
	// Uses yields what is kept, each digest once and in any order. An error is of
	// the use it comes with, and does not end the sequence unless nothing can be
	// read at all.
	Uses() iter.Seq2[Use, error]
}

// Use is when a blob was last used.
type Use struct {
	Digest modproxy.Digest
	Last   time.Time // when it was put or last opened, to the millisecond
	// Evicted tells that the blob is not there because it was removed: to make
	// room, or because somebody said so. It is fetched again when it is asked for.
	Evicted bool
}

// Blob is a blob open for reading. It is not safe for concurrent use.
type Blob interface {
	io.ReadSeekCloser
	Size() int64 // in bytes
}

// ErrDamaged: bytes are not those that their digest names.
var ErrDamaged = errors.New("the bytes are not those that the digest names")
