package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
)

// Keeper knows what the records of one kind mean.
type Keeper interface {
	// Verify compares a record with what counts elsewhere. It returns how many bytes the blobs have that r needs, in
	// the order of r.Needs, as far as r says. Errors: [ErrDamaged] if r is wrong; [modproxy.ErrChanged] if something
	// else counts by now, which is no damage; another error if that is not known.
	Verify(ctx context.Context, r Record) (sizes []int64, err error)
	// VerifyData checks a blob that r needs, whose digest is right.
	VerifyData(ctx context.Context, r Record, d modproxy.Digest, blob io.Reader) error
	// Rebuild returns the records that need a blob, made from its bytes. A blob may be of another kind: then there are
	// none.
	Rebuild(ctx context.Context, d modproxy.Digest, size int64, blob io.Reader) ([]Record, error)
}

// Rebuild reads every blob and puts the records that need it, as Kinds say, unless they are there. Damaged blobs
// are set aside. Of c only Found and Progress count. Records of the answer are those that were put, Kept the
// blobs that records need now, and Orphans the others.
func (s *Store) Rebuild(ctx context.Context, c Check) (Verified, error) {
	c.Repair = true
	v, err := s.newVerification(ctx, c)
	if err == nil {
		err = inParallel(ctx, slices.Collect(maps.Keys(v.blobs)), v.rebuildBlob)
	}
	v.progress()
	return v.out, failure(ctx, err)
}

// inParallel calls f for blobs, several at a time. An error of f ends it.
func inParallel(ctx context.Context, list []modproxy.Digest, f func(context.Context, modproxy.Digest) error) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, d := range list {
		if within.Err() != nil {
			break
		}
		group.Go(func() error { return f(within, d) })
	}
	return errors.Join(group.Wait(), ctx.Err())
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
		v.reportBlob(ctx, r, d, err)
		return nil
	}
	for i, err := range found {
		if err != nil {
			v.reportBlob(ctx, records[i], d, fmt.Errorf("%w: %w", ErrDamaged, err))
		}
	}
	return nil
}

// rebuildBlob puts the records that need a blob.
func (v *verification) rebuildBlob(ctx context.Context, d modproxy.Digest) error {
	size := v.blobs[d].size
	var records []Record
	var checks []func(io.Reader) error
	for _, keeper := range v.Kinds {
		if keeper != nil {
			checks = append(checks, func(blob io.Reader) error {
				list, err := keeper.Rebuild(ctx, d, size, blob)
				records = append(records, list...)
				return err
			})
		}
	}
	if _, err := v.readBlob(ctx, d, checks); err != nil { // a kind that fails does not know it
		v.reportBlob(ctx, Record{}, d, err)
		return nil
	}
	put := 0
	for _, r := range records {
		r.Revision = 0
		switch _, err := v.Records.Put(ctx, r); {
		case err == nil:
			put++
		case errors.Is(err, fs.ErrNotExist): // the blob was removed meanwhile
			return nil
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

// readBlob gives the bytes of a blob to checks, one after the other, and returns what they say. The error is
// about the blob; then they do not count.
func (v *verification) readBlob(ctx context.Context, d modproxy.Digest, checks []func(io.Reader) error) (found []error, err error) {
	blob, err := v.Blobs.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	c := newCheckedReader(countedBlob{blob, ctx, v}, d, v.states, true)
	defer c.Close()
	for _, check := range checks {
		found = append(found, check(c))
		if err := c.check(ctx); err != nil {
			return nil, err
		}
		_, _ = c.Seek(0, io.SeekStart)
	}
	return found, c.check(ctx)
}

// countedBlob counts what is read, and ends with its context.
type countedBlob struct {
	Blob
	ctx context.Context
	v   *verification
}

func (b countedBlob) Read(p []byte) (n int, err error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err = b.Blob.Read(p)
	b.v.count(func(out *Verified) { out.Read += int64(n) })
	return n, err
}
