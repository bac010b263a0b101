package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/modproxy/modproxy"
)

// ErrUnreadable: the storage opened a blob and did not give its bytes.
var ErrUnreadable = errors.New("the storage did not give its bytes")

// Open opens a blob of that size at its start; the caller closes it. It is not safe for
// concurrent use. While it is open the blob is not evicted.
//
// Small blobs are held in memory: they are checked as a whole before a byte is given,
// and the reader implements [io.WriterTo]. A large blob is checked while it is read: its
// last part is given only when all of it is right, and otherwise reading ends with
// [ErrDamaged]. To read only a part of it, seek first, also to the start; then all of it
// is checked before, unless it was not long ago and what is read now is the same.
//
// Whenever damage is found the blob is set aside, so that the records go that need it,
// and Observe is told. One that cannot be read stays.
//
// Errors: [fs.ErrNotExist], [ErrDamaged], [ErrUnreadable], that of the context,
// [StorageError]. The reader has the same ones.
func (s *Store) Open(ctx context.Context, d modproxy.Digest, size int64) (io.ReadSeekCloser, error) {
	blob, err := s.Blobs.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	if blob.Size() != size {
		blob.Close()
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrDamaged, blob.Size(), size)
	}
	return newChecked(blob, d, nil), nil
}

// Check reads a blob and compares it with its digest. A damaged one is set aside, and
// Observe is told.
//
// Errors: those of Open.
func (s *Store) Check(ctx context.Context, d modproxy.Digest) error {
	blob, err := s.Blobs.Open(ctx, d)
	if err != nil {
		return err
	}
	c := newChecked(blob, d, nil)
	defer c.Close()
	return c.check()
}

// SetAside keeps a blob apart as evidence that it is damaged. The records that need it
// go.
func (s *Store) SetAside(ctx context.Context, d modproxy.Digest) error {
	how := SetAside
	if s.Aside == nil {
		how = Evict
	}
	_, err := s.Blobs.Remove(ctx, how, d)
	return failure(ctx, err)
}
