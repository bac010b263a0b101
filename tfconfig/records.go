package tfconfig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Bounds of records. Their size depends on untrusted packages.
const (
	maxRecord  = 1 << 20 // bytes of one record
	overhead   = 1 << 10 // bytes that each record counts beside its own; bounds the number of small records
	sweepEvery = 256     // new records
)

// seal returns the value of a record: when it was written, in Unix nanoseconds, and v as JSON in gzip.
func seal(v any, now time.Time) ([]byte, error) {
	value := bytes.NewBuffer(binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano())))
	zipped := gzip.NewWriter(value)
	if err := errors.Join(json.NewEncoder(zipped).Encode(v), zipped.Close()); err != nil {
		return nil, err
	}
	if value.Len() > maxRecord {
		return nil, fmt.Errorf("a record of %s, more than %s", modproxy.SizeText(int64(value.Len())), modproxy.SizeText(maxRecord))
	}
	return value.Bytes(), nil
}

// unseal reads a value that seal returned. It reads at most max bytes of JSON.
func unseal(value []byte, max int64, v any) error {
	if len(value) < 8 {
		return fmt.Errorf("%w: a record of %d bytes", store.ErrDamaged, len(value))
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(value[8:]))
	if err != nil {
		return err
	}
	return json.NewDecoder(io.LimitReader(unzipped, max)).Decode(v)
}

// put stores a record and ignores errors of the store.
func (r *Reader) put(ctx context.Context, rec store.Record) {
	if _, err := r.Store.Records.Put(ctx, rec); err != nil {
		return
	}
	bytes := r.grown.Add(int64(len(rec.Value)) + overhead)
	if added := r.added.Add(1); added%sweepEvery == 0 || added == 1 || r.MaxStored > 0 && bytes >= r.MaxStored/8 {
		_ = r.Sweep(ctx) // an error is retried after the next record
	}
}

// Sweep removes the records of packages that are not stored any more, and the oldest records beyond MaxStored. The Reader calls it when
// its records have grown by an eighth of MaxStored; a program may also call it, such as after it has removed packages. It returns at
// once if another goroutine is sweeping.
func (r *Reader) Sweep(ctx context.Context) error {
	if r.Store == nil || !r.sweeping.TryLock() {
		return nil
	}
	defer r.sweeping.Unlock()
	counted := r.grown.Load()
	type stored struct {
		store.Ref
		revision uint64
		size     int64
		written  uint64
	}
	var all []stored
	var total int64
	for _, kind := range []store.Kind{ConfigurationKind, DescriptionKind} {
		for rec, err := range r.Store.Records.List(ctx, kind, "") {
			if err != nil && !errors.Is(err, store.ErrDamaged) {
				return err
			}
			digest, _, _ := strings.Cut(rec.Key, "/")
			d, bad := modproxy.ParseDigest(digest)
			_, gone := r.Store.Blobs.Stat(ctx, d)
			if err != nil || bad != nil || errors.Is(gone, fs.ErrNotExist) || len(rec.Value) < 8 {
				_ = r.Store.Records.Delete(ctx, rec.Ref, rec.Revision)
				continue
			}
			s := stored{rec.Ref, rec.Revision, int64(len(rec.Value)) + overhead, binary.BigEndian.Uint64(rec.Value)}
			total += s.size
			all = append(all, s)
		}
	}
	if r.MaxStored > 0 && total > r.MaxStored {
		slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.written, b.written) })
		for _, s := range all {
			if total <= r.MaxStored {
				break
			}
			switch err := r.Store.Records.Delete(ctx, s.Ref, s.revision); {
			case err == nil:
				total -= s.size
			case !errors.Is(err, store.ErrConflict): // on a conflict, the record was written meanwhile
				return err
			}
		}
	}
	r.grown.Add(-counted)
	return nil
}
