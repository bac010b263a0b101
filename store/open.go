package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/modproxy/modproxy"
)

// Open opens a blob of the given size at its start. The caller closes it. The reader is not safe for concurrent use.
// Removing or replacing the blob does not affect an open reader.
//
// Small blobs are held in memory. They are checked as a whole before a byte is returned, and the reader implements
// [io.WriterTo]. A large blob is checked while it is read, and this process does not evict it meanwhile. Its last part
// is returned only if all bytes are right; otherwise reading ends with [ErrDamaged]. To read only a part of it, call
// Verify first: it checks the whole blob, unless an earlier check still counts. The reader of a large blob is a
// [modproxy.Sender] and [io.WriterTo]. For a [Stamped] blob, a check counts for a day. During that day the blob is sent
// without being read, except for its end, provided that its stamp is the same before each mebibyte and before the last
// bytes. If the blob was written to after some of it was sent, reading ends with [modproxy.ErrUnavailable].
//
// A damaged blob is quarantined, and the records that need it are deleted. An unreadable blob stays, and is checked as
// a whole when it is next opened. Observe is called for both.
//
// Errors: [fs.ErrNotExist], [ErrDamaged], [ErrUnreadable], that of the context, [StorageError]. The reader returns the
// same errors.
func (s *Store) Open(ctx context.Context, d modproxy.Digest, size int64) (modproxy.Body, error) {
	s.writeUsesSoon()
	if size <= s.memory.Limit()/8 {
		r := s.memory.Open(d)
		if r == nil {
			err := s.share(ctx, &s.loads, d, func(ctx context.Context) error { return s.load(ctx, d, size) })
			if err != nil {
				return nil, err
			}
			r = s.memory.Open(d) // nil: no room in memory, because of blobs that are being read
		}
		if r != nil && r.Size() != size {
			r.Close()
			return nil, wrongSize(r.Size(), size)
		} else if r != nil {
			s.room.edit(d, s.room.use)
			return r, nil
		}
	}
	r, err := s.open(ctx, d, size)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func wrongSize(size, want int64) error {
	return fmt.Errorf("%w: %d bytes, want %d", ErrDamaged, size, want)
}

// load reads and checks a whole blob, and holds it in memory if there is room.
func (s *Store) load(ctx context.Context, d modproxy.Digest, size int64) error {
	if s.memory.Get(d) != nil || !s.memory.Reserve(size) {
		return nil
	}
	held := false
	defer func() {
		if !held {
			s.memory.Reserve(-size)
		}
	}()
	r, err := s.open(ctx, d, size)
	if err != nil {
		return err
	}
	defer r.Close()
	data := make([]byte, size)
	_, err = io.ReadFull(r, data)
	if err == nil {
		err = r.check(ctx) // an empty blob was not read
	}
	if err == nil {
		s.memory.Add(d, data)
		held = true
	}
	return err
}

// open opens a blob and counts a reader of it until the reader is closed.
func (s *Store) open(ctx context.Context, d modproxy.Digest, size int64) (c *checkedReader, err error) {
	unreadable := s.room.beginRead(d)
	defer func() {
		if c == nil {
			s.room.endRead(d)
		}
	}()
	if unreadable {
		if err := s.Check(ctx, d); err != nil {
			return nil, err
		}
	}
	blob, err := s.Blobs.Open(ctx, d)
	if err == nil && blob.Size() != size {
		blob.Close()
		err = wrongSize(blob.Size(), size)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, s.lost(ctx, d, err)
	case errors.Is(err, ErrDamaged): // or the file cannot be a blob
		return nil, s.confirm(ctx, d, err)
	case err != nil:
		return nil, failure(ctx, err)
	}
	c = newCheckedReader(blob, d, s.checked, false)
	c.failed = func(err error) {
		if errors.Is(err, ErrDamaged) {
			_ = s.confirm(context.WithoutCancel(ctx), d, err)
			return
		}
		s.room.edit(d, func(e *entry) { e.unreadable = true })
		s.observe(Event{Kind: BlobDamaged, Digest: d, Err: err})
	}
	c.close = func() { s.room.endRead(d) }
	return c, nil
}

// confirm checks a blob that was found damaged. The blob is quarantined unless it was replaced meanwhile. confirm
// returns found.
func (s *Store) confirm(ctx context.Context, d modproxy.Digest, found error) error {
	if err := s.Check(ctx, d); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(found, err)
	}
	return found
}

// Check reads a blob and compares it with its digest. It quarantines a damaged blob and calls Observe. One goroutine at
// a time checks a blob, so that a quarantined blob is the one that was found damaged, and not a replacement. Errors:
// those of Open.
func (s *Store) Check(ctx context.Context, d modproxy.Digest) error {
	return s.share(ctx, &s.checks, d, func(ctx context.Context) error {
		blob, err := s.Blobs.Open(ctx, d)
		if err == nil {
			c := newCheckedReader(blob, d, s.checked, true)
			defer c.Close()
			err = c.check(ctx)
		}
		switch {
		case err == nil:
			s.room.edit(d, func(e *entry) { e.unreadable = false })
			return nil
		case errors.Is(err, fs.ErrNotExist):
			return s.lost(ctx, d, err)
		case errors.Is(err, ErrDamaged):
			return cmp.Or(s.damaged(ctx, d, err), err)
		}
		return failure(ctx, err)
	})
}

// damaged quarantines a blob, deletes the records that need it, and calls Observe with cause.
func (s *Store) damaged(ctx context.Context, d modproxy.Digest, cause error) error {
	by, _, err := s.needing(ctx, d)
	if err == nil {
		s.room.edit(d, func(e *entry) { e.removals++ })
		_, err = s.remove(ctx, ToQuarantine, []modproxy.Digest{d})
	}
	s.observe(Event{Kind: BlobDamaged, Digest: d, Refs: by[d], Err: cause})
	if err != nil {
		return fmt.Errorf("moving a damaged blob to the quarantine: %w", err)
	}
	return nil
}

// lost deletes the records that need a missing blob, and calls Observe with err. Records that were put since stay,
// because another process may have stored the blob again.
func (s *Store) lost(ctx context.Context, d modproxy.Digest, err error) error {
	if !s.room.beginRemoval(d) { // the blob is being stored
		return err
	}
	records, _ := s.Records.Needing(ctx, d)
	_, stat := s.Blobs.Stat(ctx, d)
	gone := errors.Is(stat, fs.ErrNotExist)
	if gone {
		s.room.isGone(d, s.room.stores(d)) // no call stores it during the removal
	}
	s.room.endRemoval(d, 0)
	var refs []Ref
	for _, r := range records {
		// A record that has changed was evicted with the blob. On a full disk such a record may stay.
		if is, err := s.Records.Get(ctx, r.Ref); gone && is.Revision == r.Revision && !errors.Is(err, fs.ErrNotExist) {
			_ = s.Records.Delete(ctx, r.Ref, r.Revision)
			refs = append(refs, r.Ref)
		}
	}
	if len(refs) > 0 {
		s.observe(Event{Kind: BlobDamaged, Digest: d, Refs: refs, Err: err})
	}
	return err
}
