package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// An xzHeader is the header of a block. Sizes are -1 where they are not given.
type xzHeader struct {
	dictionary   int64
	compressed   int64
	uncompressed int64
}

// parseXzBlock reads a whole block header (section 3.1 of the specification).
func parseXzBlock(p []byte) (xzHeader, error) {
	h := xzHeader{compressed: -1, uncompressed: -1}
	body, sum := p[:len(p)-4], p[len(p)-4:]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(sum) {
		return h, xzError("block header")
	}
	flags := body[1]
	if flags&0x3c != 0 {
		return h, xzError("block header")
	}
	r := bytes.NewReader(body[2:])
	for _, size := range []struct {
		flag byte
		to   *int64
	}{{0x40, &h.compressed}, {0x80, &h.uncompressed}} {
		if flags&size.flag == 0 {
			continue
		}
		n, err := readXzInt(r)
		if err != nil {
			return h, err
		}
		*size.to = int64(n)
	}
	filter := make([]byte, 3) // the one of LZMA2, and the size of its properties
	if _, err := io.ReadFull(r, filter); err != nil || flags&3 != 0 || filter[0] != 0x21 || filter[1] != 1 {
		return h, xzError("has another filter than LZMA2")
	}
	bits := filter[2]
	switch {
	case bits > 40:
		return h, xzError("block header")
	case bits == 40:
		h.dictionary = 1<<32 - 1
	default:
		h.dictionary = int64(2|bits&1) << (bits/2 + 11)
	}
	for r.Len() > 0 {
		if c, _ := r.ReadByte(); c != 0 {
			return h, xzError("block header padding")
		}
	}
	return h, nil
}

// readXzInt reads an integer of one to nine bytes (section 1.2).
func readXzInt(r io.ByteReader) (uint64, error) {
	var v uint64
	for shift := 0; shift < 63; shift += 7 {
		c, err := r.ReadByte()
		if err != nil {
			return 0, noEOF(err)
		}
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c == 0 && shift > 0 {
				break
			}
			return v, nil
		}
	}
	return 0, xzError("integer")
}

// newXzCheck is the hash for a check's number, nil for an unknown one.
func newXzCheck(check byte) hash.Hash {
	switch check {
	case 0:
		return noCheck{}
	case 1:
		return crc32.NewIEEE()
	case 4:
		return crc64.New(crc64Table)
	case 10:
		return sha256.New()
	}
	return nil
}

var crc64Table = crc64.MakeTable(crc64.ECMA)

type noCheck struct{ hash.Hash }

func (noCheck) Write(p []byte) (int, error) { return len(p), nil }
func (noCheck) Sum(p []byte) []byte         { return p }
func (noCheck) Size() int                   { return 0 }

// An xzBlock is the content of one block.
type xzBlock struct {
	h           xzHeader
	in          *xzInput
	start, data int64 // where its header and its content begin
	r           *lzma.Reader2
	sum         hash.Hash
	n           int64
}

func (b *xzBlock) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.sum.Write(p[:n])
	b.n += int64(n)
	if b.h.uncompressed >= 0 && b.n > b.h.uncompressed {
		return 0, xzError("a block is longer than it says")
	}
	return n, err
}

// end checks what follows the content, and is the block's size without padding.
func (b *xzBlock) end() (unpadded int64, err error) {
	compressed := b.in.n - b.data
	if !b.r.EOS() || b.h.compressed >= 0 && b.h.compressed != compressed || b.h.uncompressed >= 0 && b.h.uncompressed != b.n {
		return 0, xzError("a block is not as long as it says")
	}
	padding, err := b.in.next(int(-compressed & 3))
	if err != nil {
		return 0, err
	}
	if len(bytes.Trim(padding, "\x00")) != 0 {
		return 0, xzError("block padding")
	}
	got := b.sum.Sum(nil)
	if b.sum.Size() == 4 || b.sum.Size() == 8 { // little-endian, other than Go's
		for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
			got[i], got[j] = got[j], got[i]
		}
	}
	want, err := b.in.next(len(got))
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(got, want) {
		return 0, fmt.Errorf("%w: a block has another checksum", errXz)
	}
	return b.data - b.start + compressed + int64(len(want)), nil
}
