package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// PackageCodec reads and makes records of [PackageKind] for the store. It is safe for concurrent use.
type PackageCodec struct {
	// Ledger has the valid records. nil means that none are known.
	Ledger interface {
		Ledger
		// Had reports whether a version was ever recorded with a sum.
		Had(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) (bool, error)
		// All yields every record, in the order in which they were added.
		All(ctx context.Context) iter.Seq2[modproxy.Record, error]
	}
	// Sum returns the sum of a package from its bytes. It is not called for packages of providers for one platform, whose bytes
	// are their content.
	Sum func(io.Reader) (modproxy.Sum, error)
}

var _ store.Codec = (*PackageCodec)(nil)

// Verify implements [store.Codec]. A package whose sum the ledger once had is superseded.
func (k *PackageCodec) Verify(ctx context.Context, r store.Record) ([]int64, error) {
	p, err := parsePackage(r, nil)
	if err == nil && k.Ledger != nil {
		err = matchesLedger(ctx, k.Ledger, p)
	}
	switch {
	case err == nil:
		return []int64{p.Size}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: the ledger has no record of it", store.ErrDamaged)
	case !errors.Is(err, modproxy.ErrChanged):
		return nil, err
	}
	switch had, errLedger := k.Ledger.Had(ctx, p.Ref, p.Sum); {
	case errLedger != nil:
		return nil, errLedger
	case had:
		return nil, err
	}
	return nil, fmt.Errorf("%w: %v", store.ErrDamaged, err)
}

// VerifyData implements [store.Codec].
func (k *PackageCodec) VerifyData(_ context.Context, r store.Record, d modproxy.Digest, blob io.Reader) error {
	p, err := parsePackage(r, nil)
	if err != nil {
		return err
	}
	sum := modproxy.NewSum(d)
	if !p.Ref.IsArchive() {
		sum, err = k.Sum(blob)
	}
	if err == nil && sum != p.Sum {
		err = fmt.Errorf("%w: the package is %s, and its record says %s", store.ErrDamaged, sum, p.Sum)
	}
	return err
}

// Rebuild implements [store.Codec]. A package belongs to every version that the ledger has with its sum.
func (k *PackageCodec) Rebuild(ctx context.Context) (store.Rebuilder, error) {
	last := map[modproxy.Ref]modproxy.Record{} // the last record is the valid one
	if k.Ledger != nil {
		for rec, err := range k.Ledger.All(ctx) {
			if err != nil {
				return nil, err
			}
			last[rec.Ref] = rec
		}
	}
	packages, zips := map[modproxy.Sum][]modproxy.Record{}, map[modproxy.Sum][]modproxy.Record{}
	for _, rec := range last {
		if rec.IsArchive() {
			zips[rec.Sum] = append(zips[rec.Sum], rec)
		} else {
			packages[rec.Sum] = append(packages[rec.Sum], rec)
		}
	}
	return func(_ context.Context, d modproxy.Digest, size int64, blob io.Reader) (list []store.Record, err error) {
		records := zips[modproxy.NewSum(d)]
		if sum, err := k.Sum(blob); err == nil { // an error means that it is not such a package
			records = slices.Concat(records, packages[sum])
		}
		for _, v := range records {
			if v.IsRecordOnly() {
				continue
			}
			p := StoredPackage{
				Ref: v.Ref, Digest: d, Sum: v.Sum, Size: size, Fetched: v.Time, Subdir: subdirOf(v), Facts: v.ProviderFacts,
			}
			rec, err := p.record()
			if err != nil {
				return nil, err
			}
			list = append(list, rec)
		}
		return list, nil
	}, nil
}

// subdirOf returns the directory of rec in the form of [modproxy.Package].
func subdirOf(rec modproxy.Record) string {
	if rec.Subdir == "." {
		return ""
	}
	return rec.Subdir
}

// matchesLedger reports whether p is valid, and sets the fields of p that come from the ledger. The error is
// [modproxy.ErrChanged] if p is not valid, [fs.ErrNotExist] if this spelling of the address has no valid record, else an error
// of the ledger.
func matchesLedger(ctx context.Context, l Ledger, p *StoredPackage) error {
	counts, err := l.Lookup(ctx, p.Ref)
	switch {
	case err != nil:
		return err
	case counts.Sum != p.Sum:
		return fmt.Errorf("%w: cached as %s, recorded as %s", modproxy.ErrChanged, p.Sum, counts.Sum)
	case counts.Ref != p.Ref:
		return fmt.Errorf("%w: recorded as %s", fs.ErrNotExist, counts.Ref)
	}
	if platform, isZip := p.Platform(); isZip { // another release may have been accepted since
		of, err := l.Lookup(ctx, p.Base())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if want, ok := of.Zips.Of(platform); err == nil && (!ok || modproxy.NewSum(want) != p.Sum) {
			return fmt.Errorf("%w: cached as %s, which differs from its release", modproxy.ErrChanged, p.Sum)
		}
	}
	p.Source, p.Facts = counts.Source, counts.ProviderFacts
	if counts.Subdir != "" { // an empty one was not recorded
		p.Subdir = subdirOf(counts)
	}
	return nil
}
