package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy/store"
)

// trim removes documents beyond limit, once an eighth of limit was written since the last time. put is the size in bytes of one
// more document.
func (d *documents[K, V]) trim(kind store.Kind, put int64) {
	if d.limit <= 0 || d.writtenSinceTrim.Add(put+overhead) < d.limit/8 {
		return
	}
	d.writtenSinceTrim.Store(0)
	_ = d.work.Go("", func() { // if the pool is full, after the next eighth
		switch bytes, err := d.trimNow(d.work.Context(), kind); {
		case err != nil:
			d.observe(Event{Kind: StoreFailed, Err: fmt.Errorf("removing documents: %w", err)})
		case bytes > 0:
			d.observe(Event{Kind: d.trimmed, Bytes: bytes})
		}
	})
}

// trimNow removes documents until the rest has at most limit bytes.
func (d *documents[K, V]) trimNow(ctx context.Context, kind store.Kind) (removed int64, err error) {
	type entry struct {
		store.Record
		size      int64
		used      int // 1: a package of the same version or module is stored
		requested time.Time
	}
	var all []entry
	var total int64
	for rec, err := range d.store.Records.List(ctx, kind, "") {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return 0, err
		}
		e := entry{Record: rec, size: int64(len(rec.Value)) + overhead}
		e.requested, _, _ = splitRequested(rec.Value)
		e.Value = nil
		of := rec.Key                                                  // of a version, or of a module
		if parts := strings.SplitN(rec.Key, "/", 6); len(parts) == 6 { // of a document about a version
			of = strings.TrimSuffix(rec.Key, "/"+parts[5])
		}
		for p := range d.store.Records.List(ctx, PackageKind, of) {
			if p.Key == of || strings.HasPrefix(p.Key, of+"/") {
				e.used = 1
				break
			}
		}
		total += e.size
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.used, b.used), a.requested.Compare(b.requested)) })
	for _, e := range all {
		if total <= d.limit {
			break
		}
		switch err := d.store.Records.Delete(ctx, e.Ref, e.Revision); {
		case err == nil:
			total -= e.size
			removed += e.size
		case !errors.Is(err, store.ErrConflict): // after a conflict, the document was written meanwhile and stays
			return removed, err
		}
	}
	return removed, nil
}
