// Package store stores records and blobs for all other parts of modproxy.
//
// Two things are called records. A record of the store ([Record]) is an entry of its index, which may be lost. A record of the
// ledger ([modproxy.Record]) states the content of a version for ever. This package means its own; packages that use both, such
// as cache and history, name the ledger where they mean its records.
//
//	s := store.New(store.Config{Records: records, Blobs: blobs, Quarantine: quarantine, MaxSize: 100 << 30})
//	s.Start()
//	r, err := s.Keep(ctx, record, store.Content{Digest: d, Size: size, Reader: body})
//	body, err := s.Open(ctx, d, size)
//
// example_test.go has a whole program.
//
// A record is a small value with a kind and a key, such as the versions document of a module. It names the blobs that
// it needs. A blob is a sequence of bytes with a digest, such as a package.
//
// Invariant: a record is read as it was written, as a whole, and a blob that is read to its end has the bytes of its
// digest. A blob stays while a record needs it, unless it is evicted; then the records that need it are deleted with
// it. The store is the only home of no fact: lost content can be downloaded again, and the ledger records what it must
// be.
//
// A large blob in a file may be served without being hashed for a day after a check, while its [Stamp] is the same. If
// the disk, and not a program, changes bytes without changing the stamp, the changed bytes are then served. See
// [Stamped]. This buys: eight clients at once receive a package of 210 MB at 1,867 MB/s, where nginx sends the file at 3,053
// MB/s (PERFORMANCE.md, "Beside others"). The Store reads only the last 5 MiB of the blob, and the system sends the rest
// from the file.
//
// A storage implements [Records], [Blobs] and [Quarantine]. Several processes may share a storage: records change by
// compare-and-swap, and the storage decides whether a blob is removed. The layers use a [Store]: it checks digests
// while it reads blobs, holds frequently used blobs in memory, makes room, and collects, verifies and rebuilds records
// and blobs of all kinds.
package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
)

// Kind is the kind of a record. It can be a file name.
type Kind string

// Ref identifies a record.
type Ref struct {
	Kind Kind
	Key  string // not empty; at most 1 KiB of any bytes
}

// Record is a stored value.
type Record struct {
	Ref
	Value []byte            // at most 64 MiB
	Needs []modproxy.Digest // the blobs without which the record is useless, each once
	// Revision changes with each Put, and is never reused for the same Ref. Zero means that the record does not exist.
	Revision uint64
}

// Errors of [Records] and [Blobs], beside [fs.ErrNotExist], those of the context, and those of the storage.
var (
	// ErrConflict: the record has another revision. Read it again.
	ErrConflict = errors.New("the record has changed")
	// ErrDamaged: the stored bytes differ from the bytes that were put.
	ErrDamaged = errors.New("damaged")
	// ErrUnreadable: the storage opened a blob and failed to read it. Only [Store] returns it.
	ErrUnreadable = errors.New("the storage failed to read it")
)

// Records stores records. Its methods are safe for concurrent use by many processes. A change is durable when its
// method returns nil. After an error other than [ErrConflict], the change may or may not have happened.
type Records interface {
	// Get returns a record. Errors: [fs.ErrNotExist], [ErrDamaged].
	Get(ctx context.Context, ref Ref) (Record, error)
	// Put stores r if the stored record has the revision r.Revision, and returns the next revision. A damaged record
	// has the revision zero. Errors: [ErrConflict]; otherwise [fs.ErrNotExist] if a blob in Needs does not exist;
	// [modproxy.ErrInvalid] if r exceeds the bounds of [Record].
	Put(ctx context.Context, r Record) (revision uint64, err error)
	// Delete deletes a record if it has that revision. A damaged record has the revision zero. Blobs stay. Errors:
	// [ErrConflict]. Deleting a record that does not exist succeeds.
	Delete(ctx context.Context, ref Ref, revision uint64) error
	// List yields the records of a kind whose keys begin with prefix, in the order of their keys, each in its state at
	// some time during the iteration. An empty kind, with an empty prefix, means all kinds. A damaged record comes with
	// its Ref and [ErrDamaged]. Any other error ends the sequence. Records may be changed meanwhile.
	List(ctx context.Context, kind Kind, prefix string) iter.Seq2[Record, error]
	// Needing returns the records that need a blob, without their values. A damaged record has the revision zero and no
	// Needs.
	Needing(ctx context.Context, d modproxy.Digest) ([]Record, error)
}

// Inspector is implemented by [Records] that can find damage that Get and List do not show.
type Inspector interface {
	// Inspect checks the consistency of the storage. It changes nothing.
	Inspect(ctx context.Context) (Inspection, error)
	// Mend corrects the storage's own index of needed blobs, so that it agrees with the records.
	Mend(ctx context.Context, list []Loss) error
	// Needed yields the blobs that records need, each once, without reading records. An error ends the sequence.
	Needed(ctx context.Context) iter.Seq2[modproxy.Digest, error]
}

// Inspection is the result of [Inspector.Inspect].
type Inspection struct {
	Damage error  // of the storage as a whole; iterations may then lose records or not end. It names a remedy. Nil without damage.
	Lost   []Loss // in no order
}

// Loss is a record that is missing although the storage's index says that it needs a blob. If Present is true, the
// record exists, and the index lacks its entry.
type Loss struct {
	Ref
	Digest  modproxy.Digest
	Present bool
}

// Blobs stores bytes by their digests. Its methods are safe for concurrent use by many processes.
type Blobs interface {
	// Put stores the bytes of r. The blob is durable when Put returns nil. It does not exist if Put fails: because of
	// r, the context or the storage, or because the bytes do not have the digest d ([ErrDamaged]). An existing blob
	// stays, and r is not read. The storage may take over a [File] without a copy.
	Put(ctx context.Context, d modproxy.Digest, r io.Reader) error
	// Open opens a blob at its start. The caller closes it. Its bytes are not checked. Removing or replacing the blob
	// does not affect an open reader. Errors: [fs.ErrNotExist]; [ErrDamaged] if something that cannot be a blob is in
	// its place.
	Open(ctx context.Context, d modproxy.Digest) (Blob, error)
	// Stat returns information about a blob. Errors: those of Open.
	Stat(ctx context.Context, d modproxy.Digest) (BlobInfo, error)
	// Remove removes blobs in the given way, and returns the removed ones, also together with an error. It ignores blobs
	// that do not exist, and repeated digests. Remove works on a full disk. A crash may leave a blob whose records are
	// deleted. On a full disk, a record may stay whose blob is removed: its readers get [fs.ErrNotExist].
	Remove(ctx context.Context, how Removal, list ...modproxy.Digest) (removed []BlobInfo, err error)
	// Blobs yields all blobs, each once and in any order, including those for which Open returns ErrDamaged. An error
	// ends the sequence. Blobs may be put and removed meanwhile.
	Blobs(ctx context.Context) iter.Seq2[BlobInfo, error]
	// Touch records the last uses of blobs. The record may be lost. Blobs that do not exist are ignored.
	Touch(ctx context.Context, used map[modproxy.Digest]time.Time) error
}

// File is a reader of a whole file that no program writes to any more. A storage may take over the file instead of
// copying it.
type File interface {
	io.Reader
	// Link gives the file another name. After an error, the file can still be read.
	Link(name string) error
}

// Removal is a way to remove a blob. The decision and the removal are one step: no record can begin to need the blob in
// between.
type Removal int

const (
	// Evict removes the blob and every record that needs it.
	Evict Removal = iota
	// Collect removes the blob unless a record needs it, even a damaged record. Then the blob stays, without an error.
	Collect
	// ToQuarantine is like Evict, but the bytes move to the quarantine, as evidence.
	ToQuarantine
)

// Blob is an open blob. It is not safe for concurrent use.
type Blob interface {
	io.ReadSeekCloser
	Size() int64 // in bytes
}

// Stamped is a [Blob] with a stamp. No program can change the bytes without changing the stamp, if the previous change
// is at least a minute old.
type Stamped interface {
	Blob
	// Stamp returns the current stamp. The zero Stamp proves nothing.
	Stamp() Stamp
}

// Stamp distinguishes a file from every other file, and from its own state before a program changed it.
type Stamp struct {
	Device, Inode       uint64
	Size                int64 // in bytes
	ModTime, ChangeTime int64 // in nanoseconds since 1970; programs cannot set ChangeTime
}

// Changed returns the time of the last change, according to the file system.
func (s Stamp) Changed() time.Time { return time.Unix(0, s.ChangeTime) }

// BlobInfo describes a blob without reading it.
type BlobInfo struct {
	Digest modproxy.Digest
	Size   int64     // in bytes
	Time   time.Time // when it was put
	Used   time.Time // last use recorded by Touch; Time without one
	Needed bool      // a record needs it, or a damaged record may need it
}

// Quarantine is the quarantine: damaged blobs, and other evidence of the storage.
type Quarantine interface {
	// Quarantine returns the amount that was quarantined more than age ago. Zero means all.
	Quarantined(ctx context.Context, age time.Duration) (Amount, error)
	// Purge removes everything that was quarantined more than age ago. Zero means all.
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
