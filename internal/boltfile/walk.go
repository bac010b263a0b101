package boltfile

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
)

// Visitor has the callbacks of a walk. Their slices are valid only during the call.
type Visitor struct {
	// Bucket is called for each bucket, before its entries. It may be nil.
	Bucket func(name []byte, sequence uint64) error
	// Entry is called for each key of each bucket, in order.
	Entry func(bucket, key, value []byte) error
	// Damaged is called for each damage, and the walk continues without the damaged part. If Damaged is nil, damage ends
	// the walk. Next to damage, Entry may receive entries that were deleted, duplicates, or data that is not an entry.
	Damaged func(error)
}

const (
	maxDepth = 64      // pages above one another; a bucket of 2^63 keys has fewer
	maxPage  = 1 << 30 // bytes of a page with the pages that belong to it
)

// Walk visits everything in the file. The error is [ErrDamaged], also for a page that cannot be read, that of the context, or that
// of the visitor.
func (f *File) Walk(ctx context.Context, v Visitor) error {
	end := min(f.end, uint64(f.size/f.pageSize))
	w := &walk{File: f, Visitor: v, ctx: ctx, end: end, seen: make([]uint64, end/64+1)}
	first, second := w.take(0), w.take(1) // both, because the walk may continue after damage
	err := w.note(cmp.Or(first, second))
	if err == nil && f.free != noFreeList {
		err = w.freeList()
	}
	if err == nil {
		err = w.tree(nil, f.root, nil, nil, 0)
	}
	for id := uint64(0); err == nil && id < end && f.free != noFreeList && v.Damaged == nil; id++ {
		if !w.isSeen(id) {
			err = damaged("page %d is in no bucket, and not free", id)
		}
	}
	return err
}

// walk is a call of Walk.
type walk struct {
	*File
	Visitor
	ctx    context.Context
	end    uint64   // of the pages in the file
	seen   []uint64 // one bit for each page
	bufs   [maxDepth][]byte
	spent  int64 // bytes of pages that were read
	leaves int   // the depth of the leaves of a bucket, or of the list of buckets; 0 before the first leaf
}

// note returns err, or nil if the visitor continues after damage.
func (w *walk) note(err error) error {
	if w.Damaged == nil || !errors.Is(err, ErrDamaged) {
		return err
	}
	w.Damaged(err)
	return nil
}

func (w *walk) isSeen(id uint64) bool { return w.seen[id/64]&(1<<(id%64)) != 0 }

// take records that a page has its place in the file. A second place is an error.
func (w *walk) take(id uint64) error {
	if id >= w.end {
		return damaged("page %d does not exist", id)
	}
	if w.isSeen(id) {
		return damaged("page %d is in two places", id)
	}
	w.seen[id/64] |= 1 << (id % 64)
	return nil
}

// page reads a page with the pages that belong to it. The bytes are valid until the next page of the same depth is
// read.
func (w *walk) page(id uint64, depth int) (h header, b []byte, err error) {
	if err := w.ctx.Err(); err != nil {
		return h, nil, err
	}
	if depth >= maxDepth {
		return h, nil, damaged("page %d is too deep", id)
	}
	if err := w.take(id); err != nil {
		return h, nil, err
	}
	if b, err = w.read(id, depth, w.pageSize); err != nil {
		return h, nil, err
	}
	h = headerOf(b)
	whole := int64(h.overflow+1) * w.pageSize
	if h.id != id || h.overflow >= w.end-id || whole > maxPage {
		return h, nil, damaged("page %d has another number", id)
	}
	for i := id + 1; w.Damaged == nil && i <= id+h.overflow; i++ {
		if err := w.take(i); err != nil {
			return h, nil, err
		}
	}
	if h.overflow > 0 {
		b, err = w.read(id, depth, whole)
	}
	return h, b, err
}

// read reads n bytes from the beginning of a page.
func (w *walk) read(id uint64, depth int, n int64) ([]byte, error) {
	if w.spent += n; w.spent > 4*(w.size+maxPage) { // pages that belong to several others
		return nil, damaged("page %d: too much of the file belongs to several pages", id)
	}
	b := w.bufs[depth]
	if int64(cap(b)) < n {
		b = make([]byte, n)
		w.bufs[depth] = b
	}
	if _, err := w.r.ReadAt(b[:n], int64(id)*w.pageSize); err != nil {
		return nil, readError(id, err)
	}
	return b[:n], nil
}

// freeList takes the pages of the list of free pages, and the pages in the list. With Damaged it does nothing, because
// a damaged list would hide pages.
func (w *walk) freeList() error {
	if w.Damaged != nil {
		return nil
	}
	h, b, err := w.page(w.free, 0)
	if err != nil {
		return err
	}
	ids := b[pageHeader:]
	n := uint64(h.count)
	if n == manyFree {
		n, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if h.flags != freePage || n > uint64(len(ids)/8) {
		return damaged("page %d is not a list of free pages", w.free)
	}
	for ; n > 0; n-- {
		if err := w.take(binary.NativeEndian.Uint64(ids)); err != nil {
			return err
		}
		ids = ids[8:]
	}
	return nil
}

// tree visits a page and the pages below it. Their keys are at least low and less than high; nil means no limit. If
// bucket is nil, the page is in the list of buckets.
func (w *walk) tree(bucket []byte, id uint64, low, high []byte, depth int) error {
	h, b, err := w.page(id, depth)
	if err == nil && h.flags != leafPage && h.flags != branchPage {
		err = damaged("page %d has no keys", id)
	}
	if err != nil {
		return w.note(err)
	}
	p := page{h, b}
	if err = p.check(low, high, int(w.pageSize)); err == nil {
		err = w.level(p, depth)
	}
	if err != nil {
		if err := w.note(err); err != nil {
			return err
		}
	}
	return w.elements(bucket, p, high, depth)
}

// level checks that all leaves of a bucket have the same depth. bbolt merges neighbouring pages, and loses pages if
// only one of the two is a leaf.
func (w *walk) level(p page, depth int) error {
	if p.flags != leafPage {
		return nil
	}
	if w.leaves = cmp.Or(w.leaves, depth+1); w.leaves != depth+1 {
		return damaged("page %d is at another depth than other leaves", p.id)
	}
	return nil
}

// elements visits the elements of a page.
func (w *walk) elements(bucket []byte, p page, high []byte, depth int) (err error) {
	for i := 0; err == nil && i < p.count; i++ {
		e, ok := p.element(i)
		switch {
		case !ok: // check has reported it
		case p.flags == branchPage:
			until := high
			if next, ok := p.element(i + 1); ok {
				until = next.key
			}
			err = w.tree(bucket, e.child, e.key, until, depth+1)
		case bucket == nil:
			err = w.bucket(p, e, depth)
		case e.flags != 0:
			err = w.note(damaged("page %d has a bucket in a bucket", p.id))
		default:
			err = w.Entry(bucket, e.key, e.value)
		}
	}
	return err
}

// bucket visits a bucket. A small bucket is inside its element.
func (w *walk) bucket(p page, e element, depth int) error {
	if e.flags != bucketFlag || len(e.value) < bucketHeader {
		return w.note(damaged("page %d has a key that is not a bucket", p.id))
	}
	root, sequence, inside := binary.NativeEndian.Uint64(e.value), binary.NativeEndian.Uint64(e.value[8:]), e.value[bucketHeader:]
	if w.Bucket != nil {
		if err := w.Bucket(e.key, sequence); err != nil {
			return err
		}
	}
	if root != 0 {
		if len(inside) > 0 {
			if err := w.note(damaged("page %d has a bucket of another length", p.id)); err != nil {
				return err
			}
		}
		outside := w.leaves
		w.leaves = 0
		err := w.tree(e.key, root, nil, nil, depth+1)
		w.leaves = outside
		return err
	}
	if len(inside) < pageHeader {
		return w.note(damaged("page %d has a bucket without a page", p.id))
	}
	small := page{headerOf(inside), inside}
	err := small.check(nil, nil, 1)
	if err == nil && (small.flags != leafPage || small.id != 0) {
		err = damaged("page %d has an invalid bucket", p.id)
	}
	if err != nil {
		if err := w.note(err); err != nil {
			return err
		}
	}
	if small.flags != leafPage {
		return nil
	}
	return w.elements(e.key, small, nil, depth)
}
