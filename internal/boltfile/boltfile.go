// Package boltfile reads the pages of a bbolt file without trusting them.
//
//	f, err := boltfile.Open(file, size)
//	err = f.Walk(ctx, boltfile.Visitor{Entry: func(bucket, key, value []byte) error { … }})
//
// A [Cursor] looks up keys while bbolt has the file open.
//
// bbolt trusts its pages: if one is damaged, it may loop, exhaust the memory, panic, or miss entries. Invariants: a
// walk reads each page at most once, so it ends. Without [Visitor.Damaged] it accepts exactly the files that bbolt
// writes: every element is within its page and directly after the previous one, keys are sorted, and every page is
// either in exactly one bucket, in the list of free pages, or used by the file itself: the two meta pages, and the pages of the
// list of free pages. Buckets contain no buckets.
//
// The format is that of go.etcd.io/bbolt v1.5.0: internal/common/page.go, meta.go, inode.go and bucket.go.
package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// ErrDamaged is the error for a file that bbolt would not have written, and for a page that cannot be read. In the second case the
// error also wraps that of the reader. Callers must not take it as a proof that a repair is necessary: a read may fail for a while.
var ErrDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

const (
	magic   = 0xED0CDAED
	version = 2

	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04
	freePage   = 0x10

	pageHeader   = 16
	elementSize  = 16 // of both kinds of pages
	metaSize     = 64
	bucketHeader = 16
	bucketFlag   = 1
	noFreeList   = 1<<64 - 1
	manyFree     = 0xFFFF // the first element of the list is then its length
	ownPages     = 2      // the meta pages
)

// File is a bbolt file in the state after one of its transactions was committed. It is safe for concurrent use if its reader is.
type File struct {
	r    io.ReaderAt
	size int64
	meta
}

// meta is a meta page.
type meta struct {
	pageSize             int64
	root, free, end, tid uint64
}

// TxID returns the id of the transaction.
func (f *File) TxID() uint64 { return f.tid }

// Open reads the two meta pages, and returns the file in the state after the newest transaction of a valid meta page. If the other
// meta page is damaged, or the file is too short, it returns this File together with [ErrDamaged]. If no meta page is valid, the
// File is nil.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size}
	list, problem := f.metas()
	for _, m := range list {
		if m.tid >= f.tid {
			f.meta = m
		}
	}
	if len(list) == 0 {
		return nil, problem
	}
	if whole := int64(f.end) * f.pageSize; problem == nil && whole > size {
		problem = damaged("cut short: it has %d bytes, and should have %d", size, whole)
	}
	return f, problem
}

// OpenAt returns the state after a transaction of a file that bbolt may change. A reader of bbolt must hold the transaction open, so
// that its pages remain. The result is nil if no meta page has the transaction.
func OpenAt(r io.ReaderAt, size int64, txID uint64) *File {
	f := &File{r: r, size: size}
	list, _ := f.metas() // the other meta page may be incomplete
	for _, m := range list {
		if m.tid == txID {
			f.meta = m
			return f
		}
	}
	return nil
}

// metas returns the valid meta pages, and the errors of the others. If the first does not give the page size, the
// second does.
func (f *File) metas() (list []meta, problem error) {
	first, err := f.metaAt(0, 0)
	if err == nil {
		list = append(list, first)
	}
	problem = err
	for pageSize := int64(1 << 10); pageSize <= 1<<24; pageSize <<= 1 { // the sizes that bbolt tries
		if first.pageSize != 0 && first.pageSize != pageSize {
			continue
		}
		second, err := f.metaAt(1, pageSize)
		if err == nil {
			return append(list, second), problem
		}
		if first.pageSize != 0 {
			problem = errors.Join(problem, err)
		}
	}
	return list, problem
}

// metaAt reads the meta page with the number id.
func (f *File) metaAt(id uint64, pageSize int64) (meta, error) {
	b := make([]byte, pageHeader+metaSize)
	if _, err := f.r.ReadAt(b, int64(id)*pageSize); err != nil {
		return meta{}, readError(id, err)
	}
	h, b := headerOf(b), b[pageHeader:]
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	m := meta{pageSize: int64(u32(b[8:])), root: u64(b[16:]), free: u64(b[32:]), end: u64(b[40:]), tid: u64(b[48:])}
	sum := fnv.New64a()
	sum.Write(b[:56])
	switch {
	case h.id != id || h.flags != metaPage || u32(b) != magic || u32(b[4:]) != version || u64(b[56:]) != sum.Sum64():
		return meta{}, damaged("meta page %d", id)
	case m.pageSize < 1<<10 || m.pageSize > 1<<24 || m.pageSize&(m.pageSize-1) != 0 || id > 0 && m.pageSize != pageSize:
		return meta{}, damaged("meta page %d: pages of %d bytes", id, m.pageSize)
	case m.end > 1<<40 || m.root < ownPages || m.root >= m.end || m.free != noFreeList && (m.free < ownPages || m.free >= m.end):
		return meta{}, damaged("meta page %d names pages that do not exist", id)
	}
	return m, nil
}

// readError returns the reason why a page cannot be read. A page beyond the end of the file is damage; other errors
// come from the disk.
func readError(id uint64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("page %d is behind the end of the file", id)
	}
	return fmt.Errorf("%w: page %d cannot be read: %w", ErrDamaged, id, err)
}
