// Package store keeps records and blobs, of every kind of thing that modproxy keeps.
//
// A record is a small value under a kind and a key, such as the versions document of a module. It names the
// blobs that it needs. A blob is the bytes under a digest, such as a package.
//
// Invariant: a record that is read has been written whole, and a blob that is read to its end has the bytes
// that its digest names. A blob stays as long as a record needs it, unless it is evicted; then the records that
// need it go with it. Nothing here is the only home of a fact: what is lost can be fetched again, and the
// ledger knows what it has to be.
//
// A large blob that is a file may be read without being hashed for a day after it was, while its [Stamp] is the same. Bytes
// that change without the stamp, in a disk and not by a program, are then read. See [Stamped].
//
// A storage implements [Records], [Blobs] and [Aside]. Several processes may share one: a record changes by
// compare-and-swap, and whether a blob goes is decided by the storage. [Store] is what the layers use: it reads
// blobs with their digests checked, holds hot ones in memory, makes room, and collects, verifies and rebuilds
// what is kept, for all kinds at once.
package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
)

// Kind names what a record is about. It is fit for a file name.
type Kind string

// Ref names a record.
type Ref struct {
	Kind Kind
	Key  string // not empty; at most 1 KiB of any bytes
}

// Record is a value that is kept under a name.
type Record struct {
	Ref
	Value []byte            // at most 64 MiB
	Needs []modproxy.Digest // the blobs without which it is worth nothing, each once
	// Revision changes whenever the record is put, and is never used again for the same Ref. Zero stands for
	// there being no record.
	Revision uint64
}

// Errors of [Records] and [Blobs] beside [fs.ErrNotExist], those of the context, and those of the storage.
var (
	// ErrConflict: the record has another revision by now. Read it again.
	ErrConflict = errors.New("the record has changed")
	// ErrDamaged: what is kept is not what was put.
	ErrDamaged = errors.New("damaged")
	// ErrUnreadable: the storage opened a blob and did not give its bytes. It is an error of [Store].
	ErrUnreadable = errors.New("the storage did not give its bytes")
)

// Records keeps records. Its methods are safe for concurrent use by many processes. A change is durable when
// its method returns nil. After another error than [ErrConflict] it may or may not have happened.
type Records interface {
	// Get returns a record. Errors: [fs.ErrNotExist], [ErrDamaged].
	Get(ctx context.Context, ref Ref) (Record, error)
	// Put keeps r if the record has the revision r.Revision now, and returns its next one. A damaged record has
	// the revision zero. Errors: [ErrConflict]; then [fs.ErrNotExist] if a blob in Needs is not there;
	// [modproxy.ErrInvalid] if r is beyond the bounds of [Record].
	Put(ctx context.Context, r Record) (revision uint64, err error)
	// Delete removes a record if it has that revision now, which is zero for a damaged one. Blobs stay. Errors:
	// [ErrConflict]; a record that is not there is no error.
	Delete(ctx context.Context, ref Ref, revision uint64) error
	// List yields the records of a kind whose keys begin with prefix, in the order of their keys, each as it
	// was at some time during the iteration. An empty kind stands for every kind, with an empty prefix. A
	// damaged record comes with its Ref and [ErrDamaged]; any other error ends the sequence. Records may be
	// changed meanwhile.
	List(ctx context.Context, kind Kind, prefix string) iter.Seq2[Record, error]
	// Needing returns the records that need a blob, without their values. A damaged one has the revision zero
	// and no Needs.
	Needing(ctx context.Context, d modproxy.Digest) ([]Record, error)
}

// Inspector is implemented by [Records] that can find damage which Get and List do not show.
type Inspector interface {
	// Inspect compares the storage with itself. It changes nothing.
	Inspect(ctx context.Context) (Inspection, error)
	// Mend makes what the storage has noted beside records agree with them.
	Mend(ctx context.Context, list []Loss) error
	// Needed yields the blobs that records need, each once, without reading records. An error ends the sequence.
	Needed(ctx context.Context) iter.Seq2[modproxy.Digest, error]
}

// Inspection is what [Inspector.Inspect] has found.
type Inspection struct {
	Damage error  // of the storage as a whole, which may lose any record or not end; it names a remedy. Nil: there is none
	Lost   []Loss // in no order
}

// Loss is a record of which the storage has noted that it needs a blob, and which is not there; or, if it is Present, one that
// needs a blob of which the storage has not noted that.
type Loss struct {
	Ref
	Digest  modproxy.Digest
	Present bool
}

// Blobs keeps bytes by their digest. Its methods are safe for concurrent use by many processes.
type Blobs interface {
	// Put keeps what r gives. It is durable when Put returns nil, and not there when Put fails: because of r,
	// of the context, of the storage, or because the bytes are not those of d ([ErrDamaged]). A blob that is
	// there stays, and r is not read. A [File] may be kept as it is.
	Put(ctx context.Context, d modproxy.Digest, r io.Reader) error
	// Open opens a blob at its start; the caller closes it. Its bytes are not checked. It can be read to its
	// end whatever happens to the blob meanwhile. Errors: [fs.ErrNotExist]; [ErrDamaged] if there is something
	// that cannot be a blob.
	Open(ctx context.Context, d modproxy.Digest) (Blob, error)
	// Stat returns what is known about a blob. Errors are those of Open.
	Stat(ctx context.Context, d modproxy.Digest) (BlobInfo, error)
	// Remove removes blobs in one of the ways of [Removal], and returns those that it has removed, also beside
	// an error. One that is not there, or listed twice, is no error. It works on a full disk. A crash may leave
	// a blob whose records are gone, and on a full disk a record may stay whose blob is gone: to its readers
	// that is [fs.ErrNotExist].
	Remove(ctx context.Context, how Removal, list ...modproxy.Digest) (removed []BlobInfo, err error)
	// Blobs yields what is there, each once and in any order, also what Open finds damaged. An error ends the
	// sequence. Blobs may be put and removed meanwhile.
	Blobs(ctx context.Context) iter.Seq2[BlobInfo, error]
	// Touch records when blobs were last used. It may be lost. Blobs that are not there are passed over.
	Touch(ctx context.Context, used map[modproxy.Digest]time.Time) error
}

// File is a reader of all of a file to which nobody writes any more. A storage may keep that instead of a copy.
type File interface {
	io.Reader
	// Link gives the file another name. An error is no reason not to read it.
	Link(name string) error
}

// Removal is a way to remove a blob. The decision and the removal are one step: no record comes to need the
// blob between them.
type Removal int

const (
	// Evict removes the blob and every record that needs it.
	Evict Removal = iota
	// Collect removes the blob unless a record needs it, be it damaged. A blob that stays is no error.
	Collect
	// SetAside is Evict, and the bytes are kept apart, as evidence.
	SetAside
)

// Blob is a blob open for reading. It is not safe for concurrent use.
type Blob interface {
	io.ReadSeekCloser
	Size() int64 // in bytes
}

// Stamped is a [Blob] whose bytes no program changes without changing its stamp, if the last change before is at least a
// minute old.
type Stamped interface {
	Blob
	// Stamp returns the stamp that it has now. The zero Stamp says nothing.
	Stamp() Stamp
}

// Stamp tells a file from every other, and from what it was before a program has changed it.
type Stamp struct {
	Device, Inode       uint64
	Size                int64 // in bytes
	ModTime, ChangeTime int64 // in nanoseconds since 1970; nobody can set ChangeTime
}

// Changed returns when the file has changed, as the file system tells.
func (s Stamp) Changed() time.Time { return time.Unix(0, s.ChangeTime) }

// BlobInfo says what is known about a blob without reading it.
type BlobInfo struct {
	Digest modproxy.Digest
	Size   int64     // in bytes
	Time   time.Time // when it was put
	Used   time.Time // when it was last used, as far as Touch was told; else Time
	Needed bool      // a record needs it, or a damaged one may
}

// Aside is what was set aside: damaged blobs, and what else the storage keeps as evidence.
type Aside interface {
	// Aside returns how much was set aside more than age ago. Zero stands for all.
	Aside(ctx context.Context, age time.Duration) (Amount, error)
	// Purge removes what was set aside more than age ago. Zero stands for all.
	Purge(ctx context.Context, age time.Duration) (Amount, error)
}

// Amount is a number of blobs and their bytes.
type Amount struct {
	Blobs int   `json:"packages"`
	Bytes int64 `json:"bytes"`
}

func (a *Amount) add(size int64) {
	a.Blobs++
	a.Bytes += size
}
