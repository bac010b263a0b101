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

// Store keeps records and blobs in a storage, as the layers use it. Its fields are not changed after the first use.
// It is safe for concurrent use, and other processes may use the same storage.
type Store struct {
	Records Records
	Blobs   Blobs
	Aside   Aside

	// Kinds are those that this program knows. A blob that a record of another kind needs is not evicted. Nil: all
	// are known. A nil Keeper knows nothing of their meaning.
	Kinds map[Kind]Keeper
	// Pins says which records keep their blobs from being evicted. Nil: none do.
	Pins Pins
	// Last, if not nil, reports whether the blobs of a record are evicted after all others.
	Last func(ctx context.Context, ref Ref) bool
	// MaxSize bounds the bytes of all blobs that are kept, being written or set aside, as far as other processes'
	// are known. To make room, blobs are evicted that were not used for longest. Zero: no bound.
	MaxSize int64
	// Memory bounds the bytes of blobs that are held in memory, and that are read from there. No blob larger than
	// an eighth of it is held. Zero means 64 MiB, a negative number none.
	Memory int64
	// Observe is told what happens. It is called in the middle of the work, by many goroutines at once. Nil is fine.
	Observe func(Event)

	once    sync.Once
	room    *room
	memory  *memory.Bytes[modproxy.Digest]
	checked *checks
	loads   flight.Group[modproxy.Digest, struct{}] // of blobs into memory
	checks  flight.Group[modproxy.Digest, struct{}] // of whole blobs

	work       *flight.Pool // in the background
	started    time.Time
	unrecorded Amount // blobs that were there at the start and that no record needed; of who has room.turn

	mu      sync.Mutex // guards what follows
	written time.Time  // when uses were last written down
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

// EventKind says what an [Event] tells.
type EventKind string

const (
	BlobEvicted   EventKind = "evicted"        // to make room; Digest, Bytes, and Refs, which went with it
	BlobDamaged   EventKind = "blob_damaged"   // or lost, or unreadable; Digest, Refs that need it, Err
	StorageFailed EventKind = "storage_failed" // in work that nobody waits for; Err
	// Unrecorded: no record needs blobs that were there at the start, so they are not served; Count, Bytes
	Unrecorded EventKind = "packages_without_record"
	// Missing: records need blobs that are not there, as was found at the start; Count
	Missing EventKind = "packages_missing"
)

// Event is something that happened in a [Store].
type Event struct {
	Kind   EventKind
	Digest modproxy.Digest
	Count  int // of blobs
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

// Keep keeps blobs, and then the record that needs them, if it has the revision r.Revision now, durably. It returns
// the record with its next revision. A blob that is there is checked first; if it is damaged it is set aside, and
// kept anew. None of them is evicted meanwhile by this process.
//
// Errors: [ErrConflict]; [modproxy.NoSpace] if there is no room now; [modproxy.ErrDenied] if the blobs are
// larger than MaxSize; [ErrDamaged] if bytes are not those that the digest names, or not Size long;
// [fs.ErrNotExist] if a blob in r.Needs is not there, or was removed by another process meanwhile, so that the
// content has to be read again; that of a Reader, as it is; that of the context; [StorageError]. After an error
// blobs may stay, which are evicted or collected like others.
func (s *Store) Keep(ctx context.Context, r Record, blobs ...Content) (Record, error) {
	s.init()
	for _, b := range blobs {
		if err := s.room.beginKeep(ctx, b.Digest); err != nil {
			return Record{}, err
		}
		defer s.room.endKeep(b.Digest)
		if err := s.checkKept(ctx, b); err != nil {
			return Record{}, err
		}
	}
	// Room for all at once: two calls that wait for each other's room would wait for ever.
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

// Hold has a blob that is kept stay until release is called, but for what other processes remove, and damage. Meanwhile
// Discard of what needs it fails. Errors: [fs.ErrNotExist], that of the context, [StorageError].
func (s *Store) Hold(ctx context.Context, d modproxy.Digest) (release func(), err error) {
	s.init()
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

// checkKept checks a blob that may be kept already. One that is damaged, or cannot be read, is set aside.
func (s *Store) checkKept(ctx context.Context, b Content) error {
	switch err := s.Check(ctx, b.Digest); {
	case errors.Is(err, ErrUnreadable): // its bytes are at hand
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

// sizedReader ends with an error unless it is as long as was announced, and remembers an error of its reader.
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

// Link implements [File] for a reader that does.
func (r *sizedReader) Link(name string) error {
	if file, ok := r.Reader.(File); ok {
		return file.Link(name)
	}
	return errors.ErrUnsupported
}

// Stat is that of [Blobs], which does not know yet when this process last used a blob.
func (s *Store) Stat(ctx context.Context, d modproxy.Digest) (BlobInfo, error) {
	s.init()
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
