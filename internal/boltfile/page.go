package boltfile

import (
	"bytes"
	"encoding/binary"
)

// header is the beginning of a page.
type header struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64 // the number of following pages that belong to it
}

func headerOf(b []byte) header {
	return header{
		binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint16(b[8:]), int(binary.NativeEndian.Uint16(b[10:])),
		uint64(binary.NativeEndian.Uint32(b[12:])),
	}
}

// page is a page with keys.
type page struct {
	header
	b []byte
}

// element is a key on a page.
type element struct {
	flags uint32
	key   []byte
	value []byte // on a leaf
	child uint64 // on a branch
	at    int    // the position of the key
}

// element returns an element. ok is false if it is not within the page.
func (p page) element(i int) (e element, ok bool) {
	head := pageHeader + i*elementSize
	if i >= p.count || head+elementSize > len(p.b) {
		return e, false
	}
	u32 := func(at int) int64 { return int64(binary.NativeEndian.Uint32(p.b[head+at:])) }
	var at, keySize, valueSize int64
	if p.flags == branchPage {
		at, keySize, e.child = u32(0), u32(4), binary.NativeEndian.Uint64(p.b[head+8:])
	} else {
		e.flags, at, keySize, valueSize = uint32(u32(0)), u32(4), u32(8), u32(12)
	}
	if at += int64(head); keySize == 0 || at+keySize+valueSize > int64(len(p.b)) {
		return e, false
	}
	b := p.b[at : at+keySize+valueSize]
	e.at, e.key, e.value = int(at), b[:keySize], b[keySize:]
	return e, true
}

// check returns an error if the page is not as bbolt writes it: elements sorted by key, from low and below high,
// directly one after the other, on as many pages as they need. A page inside an element has a page size of one byte.
//
// low is the key of the page in the branch above. To find a changed page in the branch, bbolt uses the first key of the
// page. If that key differs from low, bbolt adds the changed page and leaves the old one, which is then free and still
// in the tree.
func (p page) check(low, high []byte, pageSize int) error {
	end := pageHeader + p.count*elementSize
	last := low
	for i := range p.count {
		e, ok := p.element(i)
		if !ok || e.at != end {
			return damaged("page %d: element %d is elsewhere", p.id, i)
		}
		order := bytes.Compare(last, e.key)
		if i == 0 && low != nil && order != 0 || i > 0 && order >= 0 || high != nil && bytes.Compare(e.key, high) >= 0 {
			return damaged("page %d: key %d is not in its place", p.id, i)
		}
		last, end = e.key, e.at+len(e.key)+len(e.value)
	}
	switch {
	case p.count == 0 && (low != nil || p.flags == branchPage || len(bytes.Trim(p.b[pageHeader:], "\x00")) > 0):
		return damaged("page %d has lost its keys", p.id)
	case (end+pageSize-1)/pageSize*pageSize != len(p.b):
		return damaged("page %d is of another length", p.id)
	}
	return nil
}
