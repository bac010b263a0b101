package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/modproxy/modproxy"
)

// Rebuild reads every blob and puts the records that need it, as Kinds say, unless they
// are there. Damaged blobs are set aside. Of c only Found and Progress count. Records
// of the answer are those that were put, Kept the blobs that records need now, and
// Orphans the others.
func (s *Store) Rebuild(ctx context.Context, c Check) (Verified, error) {
	c.Repair = true
	v, err := s.newVerification(ctx, c)
	if err != nil {
		return v.out, err
	}
	read, end := v.startReading(ctx, v.rebuildBlob)
	for d := range v.blobs {
		read(d)
	}
	if err = errors.Join(end(), ctx.Err()); err != nil {
		return v.out, failure(ctx, err)
	}
	v.report()
	return v.out, nil
}

// startReading starts to call f for blobs, several at a time. An error of f ends it: end
// waits, and returns the first one.
func (v *verification) startReading(ctx context.Context, f func(context.Context, modproxy.Digest) error) (
	read func(modproxy.Digest), end func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	queue := make(chan modproxy.Digest)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for d := range queue {
				if ctx.Err() != nil {
					continue
				}
				if err := f(ctx, d); err != nil {
					cancel(err)
				}
			}
		})
	}
	return func(d modproxy.Digest) { queue <- d }, func() error {
		close(queue)
		group.Wait()
		defer cancel(nil)
		return context.Cause(ctx)
	}
}

// verifyBlob compares a blob with its digest and the records that need it.
func (v *verification) verifyBlob(ctx context.Context, d modproxy.Digest) error {
	needing, err := v.Records.Needing(ctx, d)
	if err != nil {
		return err
	}
	var records []Record
	var checks []func(io.Reader) error
	for _, r := range needing {
		keeper := v.Kinds[r.Kind]
		if keeper == nil {
			continue
		}
		if r, err := v.Records.Get(ctx, r.Ref); err == nil { // else it has changed
			records = append(records, r)
			checks = append(checks, func(blob io.Reader) error { return keeper.VerifyData(ctx, r, d, blob) })
		}
	}
	found, err := v.readBlob(ctx, d, checks)
	if err != nil {
		var r Record
		if len(needing) > 0 {
			r.Ref = needing[0].Ref
		}
		v.broken(ctx, r, d, err)
		return nil
	}
	for i, err := range found {
		if err != nil {
			v.broken(ctx, records[i], d, fmt.Errorf("%w: %w", ErrDamaged, err))
		}
	}
	return nil
}

// readBlob gives the bytes of a blob to checks, one after the other, and returns what
// they say. The error is about the blob; then they do not count.
func (v *verification) readBlob(ctx context.Context, d modproxy.Digest, checks []func(io.Reader) error) ([]error, error) {
	blob, err := v.Blobs.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	from := &countedReader{ctx: ctx, Reader: blob, v: v}
	hash := sha256.New()
	hashed := io.TeeReader(from, hash)
	found := make([]error, len(checks))
	if len(checks) > 0 {
		found[0] = checks[0](hashed)
	}
	_, _ = io.Copy(io.Discard, hashed) // the rest; from has the error
	if is := modproxy.Digest(hash.Sum(nil)); from.err == nil && is != d {
		return nil, fmt.Errorf("%w: the bytes are those of %s", ErrDamaged, is)
	}
	for i := 1; i < len(checks) && from.err == nil; i++ {
		if _, from.err = blob.Seek(0, io.SeekStart); from.err == nil {
			found[i] = checks[i](from)
		}
	}
	if from.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, from.err)
	}
	return found, nil
}

// countedReader counts what is read. An error of it lasts.
type countedReader struct {
	io.Reader
	ctx context.Context
	v   *verification
	err error
}

func (r *countedReader) Read(p []byte) (n int, err error) {
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err = r.Reader.Read(p)
	r.v.count(func(out *Verified) { out.Read += int64(n) })
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// rebuildBlob puts the records that need a blob.
func (v *verification) rebuildBlob(ctx context.Context, d modproxy.Digest) error {
	size := v.blobs[d].size
	var records []Record
	var checks []func(io.Reader) error
	for _, keeper := range v.Kinds {
		if keeper == nil {
			continue
		}
		checks = append(checks, func(blob io.Reader) error {
			list, err := keeper.Rebuild(ctx, d, size, blob)
			records = append(records, list...)
			return err
		})
	}
	if _, err := v.readBlob(ctx, d, checks); err != nil { // a kind that fails does not know it
		v.broken(ctx, Record{}, d, err)
		return nil
	}
	put := 0
	for _, r := range records {
		r.Revision = 0
		switch _, err := v.Records.Put(ctx, r); {
		case err == nil:
			put++
		case !errors.Is(err, ErrConflict):
			return err
		}
	}
	needing, err := v.Records.Needing(ctx, d)
	if err != nil {
		return err
	}
	v.count(func(out *Verified) {
		if out.Records += put; len(needing) > 0 {
			out.Kept.add(size)
		} else {
			out.Orphans.add(size)
		}
	})
	return nil
}
