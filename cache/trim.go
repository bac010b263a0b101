package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modproxy/modproxy/store"
)

// overhead is what a document counts beside its bytes, so that small ones have a bound
// in number.
const overhead = 1 << 10

// trim keeps the documents to limit, when an eighth of that, or more, was put since the
// last time. put is the bytes of one more document.
func (d *documents[K, V]) trim(kind store.Kind, put int64) {
	if d.limit <= 0 || d.grown.Add(put+overhead) < d.limit/8 {
		return
	}
	d.grown.Store(0)
	d.work.start("", func() { // if not now, then after the next eighth
		bytes, err := d.trimNow(d.work.ending, kind)
		if err != nil {
			d.observe(Event{Kind: StoreFailed, Err: fmt.Errorf("removing versions documents: %w", err)})
		} else if bytes > 0 {
			d.observe(Event{Kind: VersionsTrimmed, Bytes: bytes})
		}
	})
}

// trimNow removes documents until those that stay have no more than limit bytes.
func (d *documents[K, V]) trimNow(ctx context.Context, kind store.Kind) (removed int64, err error) {
	type kept struct {
		store.Record
		size  int64
		asked time.Time
		used  bool // a package is kept beside it
	}
	var all []kept
	var total int64
	for rec, err := range d.store.Records.List(ctx, kind, "") {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return 0, err
		}
		e := kept{Record: rec, size: int64(len(rec.Value)) + overhead}
		e.asked, _, _ = splitAsked(rec.Value)
		e.Value = nil
		for range d.store.Records.List(ctx, d.packages, rec.Key+"/") {
			e.used = true
			break
		}
		total += e.size
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b kept) int {
		if a.used != b.used {
			if b.used {
				return -1
			}
			return 1
		}
		return a.asked.Compare(b.asked)
	})
	for _, e := range all {
		if total <= d.limit {
			break
		}
		err := d.store.Records.Delete(ctx, e.Ref, e.Revision)
		switch {
		case errors.Is(err, store.ErrConflict): // it was put meanwhile
			continue
		case err != nil:
			return removed, err
		}
		total -= e.size
		removed += e.size
	}
	return removed, nil
}
