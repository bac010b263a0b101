package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
)

// Store keeps records and blobs in a storage, as the layers use it. Its fields are set
// before the first use and not changed afterwards. It is safe for concurrent use.
//
// Several processes may share one storage. What one does to a blob is decided by the
// storage, so that a reader of another finds a blob that is sound, or none.
type Store struct {
	Records Records
	Blobs   Blobs
	Aside   Aside // what was set aside; nil: damaged blobs are removed

	// Kinds are the kinds of records that this program knows. A blob that a record of
	// another kind needs is not evicted. Nil: all are known.
	Kinds map[Kind]Keeper
	// Pins says which records keep their blobs from being evicted. Nil: none do.
	Pins Pins
	// MaxSize bounds the bytes of all blobs, those that are being written and those that
	// were set aside included. To make room, blobs are evicted that were not used for
	// longest. Processes that share a storage keep to it as far as they know of each
	// other's blobs. Zero: no bound.
	MaxSize int64
	// Memory bounds the bytes of blobs that are held in memory, those that are read from
	// there included. No blob larger than an eighth of it is held. Zero means 64 MiB, a
	// negative number none.
	Memory int64
	// Observe is told what happens. It is called in the middle of the work, by many
	// goroutines at once, and should be quick. Nil is fine.
	Observe func(Event)
}

// Pins says which records keep their blobs from being evicted.
type Pins interface {
	Pinned(ref Ref) bool
}

// Content is the bytes of a blob.
type Content struct {
	Digest modproxy.Digest
	Size   int64
	Reader io.Reader
}

// EventKind says what an [Event] tells. It is fit for the label of a metric.
type EventKind string

const (
	BlobEvicted   EventKind = "evicted"        // to make room; Digest, Bytes, and Refs, which went with it
	BlobDamaged   EventKind = "blob_damaged"   // or lost, or unreadable; Digest, Refs that need it, Err
	StorageFailed EventKind = "storage_failed" // in work that nobody waits for; Err
)

// Event is something that happened in a [Store].
type Event struct {
	Kind   EventKind
	Digest modproxy.Digest
	Bytes  int64
	Refs   []Ref
	Err    error
}

// StorageError is an error of the storage: [modproxy.ErrUnavailable].
type StorageError struct{ Err error }

func (e *StorageError) Error() string   { return "storage: " + e.Err.Error() }
func (e *StorageError) Unwrap() []error { return []error{e.Err, modproxy.ErrUnavailable} }

// failure returns err, of the storage, as callers of a Store know it.
func failure(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EROFS):
		return &modproxy.NoSpace{Err: err}
	}
	return &StorageError{err}
}

// Keep keeps blobs, and then the record that needs them, if it has the revision
// r.Revision now. It returns the record with its next revision. All is durable when
// Keep returns nil. A blob that is there is checked before it is relied on; if it is
// damaged it is set aside, and kept anew. None of them is evicted meanwhile by this
// process.
//
// Errors: [ErrConflict]; [modproxy.NoSpace] if there is no room now;
// [modproxy.ErrDenied] if the blobs are larger than MaxSize; [ErrDamaged] if bytes are
// not those that the digest names, or not Size long; [fs.ErrNotExist] if a blob in
// r.Needs is not there, or was removed by another process meanwhile, so that the
// content has to be read again; that of a Reader, as it is; that of the context;
// [StorageError]. After an error blobs may stay; they count, and are evicted or
// collected like others.
func (s *Store) Keep(ctx context.Context, r Record, blobs ...Content) (Record, error) {
	for _, b := range blobs {
		body := &body{Reader: b.Reader, left: b.Size}
		if err := s.Blobs.Put(ctx, b.Digest, body); err != nil {
			switch {
			case body.err != nil:
				return Record{}, body.err
			case errors.Is(err, ErrDamaged):
				return Record{}, err
			}
			return Record{}, failure(ctx, err)
		}
	}
	revision, err := s.Records.Put(ctx, r)
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, fs.ErrNotExist):
		return Record{}, err
	case err != nil:
		return Record{}, failure(ctx, err)
	}
	r.Revision = revision
	return r, nil
}

// body is a blob on its way into the storage. It ends with an error unless it is as
// long as was announced, and remembers an error of its reader.
type body struct {
	io.Reader
	left int64
	err  error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.left -= int64(n)
	switch {
	case b.left < 0:
		b.err = fmt.Errorf("%w: longer than was announced", ErrDamaged)
	case errors.Is(err, io.EOF) && b.left > 0:
		b.err = fmt.Errorf("%w: %d bytes shorter than was announced", ErrDamaged, b.left)
	case err != nil && !errors.Is(err, io.EOF):
		b.err = err
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, err
}

// Stat returns what is known about a blob without reading it, and when this process
// last used it. The error is [fs.ErrNotExist] if it is not there.
func (s *Store) Stat(ctx context.Context, d modproxy.Digest) (BlobInfo, error) {
	return s.Blobs.Stat(ctx, d)
}

// Usage returns how many bytes the blobs have that are kept, and how many are reserved
// for those that are being written. What was there before counts soon after Start.
func (s *Store) Usage() (kept, reserved int64) { return 0, 0 }

// Start counts what is there and evicts what is over MaxSize, in the background.
func (s *Store) Start() {}

// Close ends work in the background and writes down when blobs were last used.
func (s *Store) Close(ctx context.Context) error { return nil }

// Discarded is a record that [Store.Discard] has deleted.
type Discarded struct {
	Record Record
	Bytes  int64 // of the blobs that were removed with it
	Shared []Ref // the records that still need some of its blobs
}

// Discard deletes records, pinned or not, and removes the blobs that nothing needs any
// more. Readers of one read on. Records that are not there are not in the answer.
//
// Errors: [modproxy.ErrUnavailable] while one of the blobs is being kept, and then
// nothing is deleted; [ErrConflict]; that of the context; [StorageError].
func (s *Store) Discard(ctx context.Context, refs ...Ref) ([]Discarded, error) {
	var list []Discarded
	for _, ref := range refs {
		r, err := s.Records.Get(ctx, ref)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return list, failure(ctx, err)
		}
		if err := s.Records.Delete(ctx, ref, r.Revision); err != nil {
			return list, err
		}
		one := Discarded{Record: r}
		removed, err := s.Blobs.Remove(ctx, Collect, r.Needs...)
		if err != nil {
			return list, failure(ctx, err)
		}
		for _, b := range removed {
			one.Bytes += b.Size
		}
		list = append(list, one)
	}
	return list, nil
}

// GC says what [Store.Collect] removes.
type GC struct {
	// MaxSize is what the blobs may have that stay, with what was set aside, in bytes.
	// Those are evicted that were not used for longest. Zero: as many as there are.
	MaxSize int64
	// OrphanAge is how long ago blobs were put that are removed because no record needs
	// them. One that was put a moment ago may be about to have a record.
	OrphanAge time.Duration
	// AsideAge is how long ago blobs were set aside that are removed. Zero: none.
	AsideAge time.Duration
	DryRun   bool // remove nothing, and count
}

// Collected is what [Store.Collect] has removed, or would remove.
type Collected struct {
	Orphans Amount `json:"orphans"` // blobs that no record needs
	Evicted Amount `json:"evicted"`
	Aside   Amount `json:"quarantine"`
	Kept    int64  `json:"kept_bytes"` // what is left
}

// Collect removes what is not needed any more.
func (s *Store) Collect(ctx context.Context, gc GC) (Collected, error) { return Collected{}, nil }
