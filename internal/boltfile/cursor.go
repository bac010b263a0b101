package boltfile

import (
	"bytes"
	"io"
	"sort"
)

// Cursor reads one bucket of a bbolt file, page by page, while a reader of bbolt holds the transaction open. bbolt's
// own cursor reads through a mapping of the file, so that every page that it reads, and some pages beside it, count as
// memory of the process. After an error the caller must call Reset, possibly with the same arguments. A Cursor is not safe for
// concurrent use.
type Cursor struct {
	r        io.ReaderAt
	pageSize int64
	end      uint64 // of the pages of the transaction
	root     uint64
	levels   [maxDepth]level // from the root down
	depth    int             // the number of levels; the last one is a leaf
	last     []byte          // the last key of the previous leaf
}

// level is a page on the path of the cursor.
type level struct {
	page
	buffer []byte
	loaded bool // page is the one that was last read into buffer
	at     int  // the current element
}

// Reset makes c a cursor of the bucket with this root page, in a transaction of size bytes. bbolt has these values: DB.Info for
// pageSize, Tx.Size for size, and Bucket.Root for root. It reuses the buffers.
func (c *Cursor) Reset(r io.ReaderAt, pageSize int, size int64, root uint64) {
	c.r, c.pageSize, c.end, c.root, c.depth = r, int64(pageSize), uint64(size)/uint64(pageSize), root, 0
	for i := range c.levels {
		c.levels[i].loaded = false
	}
}

// Seek moves the cursor to key, or to the next key if the bucket does not have it, and returns the key with its value.
// At the end of the bucket, the returned key is nil. The slices are valid until the cursor is moved. The error is
// [ErrDamaged].
func (c *Cursor) Seek(key []byte) (k, v []byte, err error) {
	c.depth, c.last = 0, c.last[:0]
	for id := c.root; ; {
		l, err := c.descend(id)
		if err != nil {
			return nil, nil, err
		}
		if l.flags == leafPage {
			l.at = sort.Search(l.count, func(i int) bool { return bytes.Compare(l.key(i), key) >= 0 })
			return c.current()
		}
		after := sort.Search(l.count, func(i int) bool { return bytes.Compare(l.key(i), key) > 0 })
		l.at = max(0, after-1)
		if id, err = l.child(); err != nil {
			return nil, nil, err
		}
	}
}

// Next moves the cursor to the following key. Its results are those of Seek.
func (c *Cursor) Next() (k, v []byte, err error) {
	if c.depth == 0 {
		return nil, nil, nil
	}
	c.levels[c.depth-1].at++
	return c.current()
}

// current returns the element of the cursor. At the end of a leaf, it moves to the next leaf.
func (c *Cursor) current() (k, v []byte, err error) {
	for moved := false; ; moved = true {
		l := &c.levels[c.depth-1]
		if l.at < l.count {
			e, ok := l.element(l.at)
			switch {
			case !ok || e.flags != 0:
				return nil, nil, damaged("page %d: element %d is elsewhere", l.id, l.at)
			case moved && bytes.Compare(e.key, c.last) <= 0:
				return nil, nil, damaged("page %d: key %d is not in its place", l.id, l.at)
			}
			return e.key, e.value, nil
		}
		if l.count > 0 {
			c.last = append(c.last[:0], l.key(l.count-1)...)
		}
		for c.depth--; c.depth > 0; c.depth-- {
			if l = &c.levels[c.depth-1]; l.at+1 < l.count {
				break
			}
		}
		if c.depth == 0 {
			return nil, nil, nil
		}
		for l.at++; l.flags == branchPage; {
			id, err := l.child()
			if err != nil {
				return nil, nil, err
			}
			if l, err = c.descend(id); err != nil {
				return nil, nil, err
			}
			l.at = 0
		}
	}
}

// descend reads a page one level further down, unless it is the page that was last read at this level.
func (c *Cursor) descend(id uint64) (*level, error) {
	if c.depth == maxDepth {
		return nil, damaged("page %d is too deep", id)
	}
	l := &c.levels[c.depth]
	if !l.loaded || l.id != id {
		l.loaded = false
		if err := c.read(l, id); err != nil {
			return nil, err
		}
		l.loaded = true
	}
	c.depth++
	return l, nil
}

func (c *Cursor) read(l *level, id uint64) error {
	if id < ownPages || id >= c.end {
		return damaged("page %d does not exist", id)
	}
	pages := int64(1)
	for {
		if size := pages * c.pageSize; int64(cap(l.buffer)) < size {
			l.buffer = make([]byte, size)
		}
		b := l.buffer[:pages*c.pageSize]
		if _, err := c.r.ReadAt(b, int64(id)*c.pageSize); err != nil {
			return readError(id, err)
		}
		h := headerOf(b)
		whole := int64(h.overflow) + 1
		switch {
		case h.id != id || h.overflow >= c.end-id || whole*c.pageSize > maxPage:
			return damaged("page %d has another number", id)
		case h.flags != leafPage && (h.flags != branchPage || h.count == 0):
			return damaged("page %d has no keys", id)
		case whole == pages:
			l.page = page{h, b}
			return nil
		}
		pages = whole
	}
}

// key returns the key of an element, or nil if the element is not within the page.
func (l *level) key(i int) []byte {
	e, _ := l.element(i)
	return e.key
}

// child returns the page below the current element of a branch.
func (l *level) child() (uint64, error) {
	e, ok := l.element(l.at)
	if !ok {
		return 0, damaged("page %d: element %d is elsewhere", l.id, l.at)
	}
	return e.child, nil
}
