package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/modproxy/modproxy"
)

// Codec interprets the records of one kind.
type Codec interface {
	// Verify compares a record with the ledger or another authority. It returns the sizes of the blobs that r needs, in
	// the order of r.Needs, as far as r contains them. Errors: [ErrDamaged] if r is wrong; [modproxy.ErrChanged] if r is
	// not damaged, but another record counts by now; another error if the comparison fails.
	Verify(ctx context.Context, r Record) (sizes []int64, err error)
	// VerifyData checks a blob that r needs. Its digest is right.
	VerifyData(ctx context.Context, r Record, d modproxy.Digest, blob io.Reader) error
	// Rebuild begins a rebuild with the current data of the authority.
	Rebuild(ctx context.Context) (Rebuilder, error)
}

// Rebuilder makes new records that need a blob from its bytes. For a blob of another kind it returns no record. An
// error ends the rebuild, unless the blob is damaged. A Rebuilder is safe for concurrent use.
type Rebuilder func(ctx context.Context, d modproxy.Digest, size int64, blob io.Reader) ([]Record, error)

// verifyBlob compares a blob with its digest, and with the records that need it. If the caller asked for it, verifyBlob
// puts missing records.
func (v *verification) verifyBlob(ctx context.Context, d modproxy.Digest, b verifiedBlob) error {
	switch {
	case b.damaged, b.needed && !v.asked.Data:
		return nil
	case !b.needed && !(v.asked.Data && v.asked.Repair):
		v.count(func(out *Verified) { out.Orphans.add(b.size) })
		return nil
	}
	needing, err := v.Records.Needing(ctx, d)
	if err != nil {
		return err
	}
	var made []Record
	var failed error
	blob, err := v.Blobs.Open(ctx, d)
	if err == nil {
		c := newCheckedReader(countedBlob{blob, ctx, v}, d, v.checked, true)
		defer c.Close()
		if b.needed {
			v.verifyData(ctx, c, needing)
		} else {
			made, failed = v.recordsOf(ctx, c)
		}
		err = c.check(ctx)
	}
	if err != nil {
		needing = append(needing, Record{}) // the blob may have no record
		v.reportBlob(ctx, Record{Ref: needing[0].Ref}, d, err)
		return nil
	}
	if failed != nil || b.needed {
		return failed
	}
	for _, r := range made {
		switch _, err := v.Records.Put(ctx, r); {
		case err == nil:
			v.count(func(out *Verified) { out.Records++ })
		case errors.Is(err, fs.ErrNotExist): // the blob was removed meanwhile
			return nil
		case !errors.Is(err, ErrConflict):
			return err
		}
	}
	needing, err = v.Records.Needing(ctx, d)
	v.count(func(out *Verified) {
		if len(needing) > 0 {
			out.Kept.add(b.size)
		} else {
			out.Orphans.add(b.size)
		}
	})
	return err
}

// verifyData compares a blob with the records that need it. The caller reports damage of the blob itself.
func (v *verification) verifyData(ctx context.Context, c *checkedReader, needing []Record) {
	for _, r := range needing {
		keeper := v.Kinds[r.Kind]
		r, err := v.Records.Get(ctx, r.Ref)
		if keeper == nil || err != nil { // the record has changed
			continue
		}
		if err := keeper.VerifyData(ctx, r, c.want, c); err != nil && c.check(ctx) == nil {
			v.reportBlob(ctx, r, c.want, fmt.Errorf("%w: %w", ErrDamaged, err))
		}
		_, _ = c.Seek(0, io.SeekStart)
	}
}

// recordsOf returns the records that need a blob, from all Kinds.
func (v *verification) recordsOf(ctx context.Context, c *checkedReader) (list []Record, err error) {
	for kind, begin := range v.rebuilders {
		rebuild, err := begin()
		var made []Record
		if err == nil {
			made, err = rebuild(ctx, c.want, c.size, c)
		}
		if err != nil {
			return nil, fmt.Errorf("whether blob %v is a %s: %w", c.want, kind, err)
		}
		list = append(list, made...)
		_, _ = c.Seek(0, io.SeekStart)
	}
	return list, nil
}

// countedBlob counts the bytes read, and ends with its context.
type countedBlob struct {
	Blob
	ctx context.Context
	v   *verification
}

func (b countedBlob) Stamp() Stamp { return stampOf(b.Blob) }

func (b countedBlob) Read(p []byte) (n int, err error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err = b.Blob.Read(p)
	b.v.count(func(out *Verified) { out.Read += int64(n) })
	return n, err
}
