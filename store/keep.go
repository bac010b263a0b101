package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
)

// Config configures a [Store].
type Config struct {
	Records    Records
	Blobs      Blobs
	Quarantine Quarantine

	// Kinds are the kinds of records that this program knows. A blob that a record of another kind needs is not
	// evicted. If Kinds is nil, all kinds are known. A kind with a nil Codec is known, but its records are not
	// interpreted.
	Kinds map[Kind]Codec
	// Pins selects the records that keep their blobs from being evicted. If Pins is nil, no record does.
	Pins Pins
	// EvictLast, if not nil, reports whether the blobs of a record are evicted after all others.
	EvictLast func(ctx context.Context, ref Ref) bool
	// MaxSize is the maximum total size of all blobs that are stored, being written or quarantined, in bytes. Blobs of
	// other processes count as far as they are known. To make room, the Store evicts the least recently used blobs.
	// Zero means no limit.
	MaxSize int64
	// Memory is the maximum total size of the blobs that are held in memory, in bytes. A blob larger than an eighth of
	// it is not held. Zero means 64 MiB, a negative number means no blob.
	Memory int64
	// Observe, if not nil, is called for each event, during the work and by many goroutines at once.
	Observe func(Event)
}

// Store stores records and blobs for the layers. It is safe for concurrent use, and other processes may use the same
// storage. [New] makes one.
type Store struct {
	Config // not changed

	room    *room
	memory  *memory.Bytes[modproxy.Digest]
	checked *checks
	loads   flight.Group[modproxy.Digest, struct{}] // of blobs into memory
	checks  flight.Group[modproxy.Digest, struct{}] // of whole blobs

	work       *flight.Pool // in the background
	started    time.Time
	unrecorded Amount // blobs without a record at the start; owned by the holder of room.turn

	mu      sync.Mutex // guards the fields below
	written time.Time  // when uses were last written to the storage
}

// Pins selects the records that keep their blobs from being evicted.
type Pins interface {
	Pinned(ref Ref) bool
}

// Content is the bytes of a blob.
type Content struct {
	Digest modproxy.Digest
	Size   int64
	Reader io.Reader
}

// EventKind is the kind of an [Event].
type EventKind string

const (
	BlobEvicted   EventKind = "evicted"        // to make room; sets Digest, Bytes, and Refs, the records deleted with the blob
	BlobDamaged   EventKind = "blob_damaged"   // damaged, lost or unreadable; sets Digest, Refs of the records that need the blob, and Err
	StorageFailed EventKind = "storage_failed" // in background work; sets Err
	// Unrecorded: at the start, the storage had blobs that no record needs. They are not served. Sets Count and Bytes.
	Unrecorded EventKind = "packages_without_record"
	// Missing: at the start, blobs that records need were missing. Sets Count.
	Missing EventKind = "packages_missing"
)

// Event is an event in a [Store].
type Event struct {
	Kind   EventKind
	Digest modproxy.Digest
	Count  int // of blobs
	Bytes  int64
	Refs   []Ref
	Err    error
}

// StorageError is an error of the storage. It wraps [modproxy.ErrUnavailable].
type StorageError struct{ Err error }

func (e *StorageError) Error() string   { return "storage: " + e.Err.Error() }
func (e *StorageError) Unwrap() []error { return []error{e.Err, modproxy.ErrUnavailable} }

// failure converts an error of the storage into one of the documented errors of Store.
func failure(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EROFS):
		return &modproxy.NoSpace{Err: err, Inodes: durable.NoInodes(err)}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrConflict), errors.Is(err, ErrDamaged),
		errors.Is(err, modproxy.ErrInvalid), errors.Is(err, modproxy.ErrUnavailable):
		return err
	}
	return &StorageError{err}
}

// Keep stores blobs durably, and then the record that needs them, provided that the stored record has the revision
// r.Revision. It returns the record with its next revision. If a blob exists already, Keep checks it first; a damaged
// blob is quarantined and stored again. This process evicts none of the blobs meanwhile.
//
// Errors: [ErrConflict]; [modproxy.NoSpace] without room at present; [modproxy.ErrDenied] if the blobs are larger than
// MaxSize; [ErrDamaged] if the bytes do not have the digest or the Size; [fs.ErrNotExist] if a blob in r.Needs does not
// exist, or if another process has removed it meanwhile, so that the content must be read again; the unchanged error of
// a Reader; that of the context; [StorageError]. After an error, stored blobs may remain. They are evicted or collected
// like others.
func (s *Store) Keep(ctx context.Context, r Record, blobs ...Content) (Record, error) {
	for _, b := range blobs {
		if err := s.room.beginKeep(ctx, b.Digest); err != nil {
			return Record{}, err
		}
		defer s.room.endKeep(b.Digest)
		if err := s.checkKept(ctx, b); err != nil {
			return Record{}, err
		}
	}
	// Reserve room for all blobs at once: two calls that wait for each other's room would never end.
	reserved, err := s.makeRoom(ctx, blobs)
	if err != nil {
		return Record{}, err
	}
	defer s.room.release(&reserved)
	for _, b := range blobs {
		body := &sizedReader{Reader: b.Reader, left: b.Size}
		if err := s.Blobs.Put(ctx, b.Digest, body); body.err != nil {
			return Record{}, body.err
		} else if err != nil {
			return Record{}, failure(ctx, err)
		}
		s.room.keep(b.Digest, b.Size, &reserved)
	}
	if r.Revision, err = s.Records.Put(ctx, r); err != nil {
		return Record{}, failure(ctx, err)
	}
	return r, nil
}

// Hold protects a stored blob until release is called, except from removal by other processes and from damage.
// Meanwhile, Discard of a record that needs the blob fails. Errors: [fs.ErrNotExist], that of the context,
// [StorageError].
func (s *Store) Hold(ctx context.Context, d modproxy.Digest) (release func(), err error) {
	if err := s.room.beginKeep(ctx, d); err != nil {
		return nil, err
	}
	release = sync.OnceFunc(func() { s.room.endKeep(d) })
	if _, err := s.Blobs.Stat(ctx, d); err != nil {
		release()
		return nil, failure(ctx, err)
	}
	return release, nil
}

// checkKept checks a blob that may exist already. A damaged or unreadable blob is quarantined.
func (s *Store) checkKept(ctx context.Context, b Content) error {
	switch err := s.Check(ctx, b.Digest); {
	case errors.Is(err, ErrUnreadable): // the caller has its bytes
		return s.damaged(ctx, b.Digest, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrDamaged):
		return nil
	case err != nil:
		return err
	}
	is, err := s.Blobs.Stat(ctx, b.Digest)
	if err == nil && is.Size != b.Size {
		return wrongSize(is.Size, b.Size)
	}
	return failure(ctx, err)
}

// sizedReader returns an error unless its length is the announced one. It records an error of its reader.
type sizedReader struct {
	io.Reader
	left int64
	err  error
}

func (r *sizedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.left -= int64(n)
	switch {
	case r.left < 0:
		r.err = fmt.Errorf("%w: longer than was announced", ErrDamaged)
	case errors.Is(err, io.EOF) && r.left > 0:
		r.err = fmt.Errorf("%w: %d bytes shorter than was announced", ErrDamaged, r.left)
	case !errors.Is(err, io.EOF):
		r.err = err
	}
	if r.err != nil {
		return 0, r.err
	}
	return n, err
}

// Link implements [File] if the reader does.
func (r *sizedReader) Link(name string) error {
	if file, ok := r.Reader.(File); ok {
		return file.Link(name)
	}
	return errors.ErrUnsupported
}

// Stat is like that of [Blobs], but also knows recent uses by this process.
func (s *Store) Stat(ctx context.Context, d modproxy.Digest) (BlobInfo, error) {
	info, err := s.Blobs.Stat(ctx, d)
	if err != nil {
		return BlobInfo{}, failure(ctx, err)
	}
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if used := s.room.used[d]; used.After(info.Used) {
		info.Used = used
	}
	return info, nil
}
