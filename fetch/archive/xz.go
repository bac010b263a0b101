package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"slices"

	"github.com/ulikunitz/xz/lzma"
)

const (
	xzMagic         = "\xfd7zXZ\x00"
	maxDictionary   = 64 << 20 // bytes of memory that a block may request: as xz -9
	maxDictionaries = 4 << 30  // bytes that all blocks together may request
)

// An xzReader decompresses the .xz container (https://tukaani.org/xz/xz-file-format.txt, version 1.2). It uses the
// LZMA2 decoder of ulikunitz/xz, but not its container reader: that allocates a dictionary of the size that a block
// requests, up to 4 GiB, and accepts a file that ends between two blocks.
type xzReader struct {
	r *bufio.Reader
	n int64 // bytes read from r

	inStream     bool
	check        byte
	blocks       uint64
	records      []byte // of the index, one for each block
	dictionaries int64

	block        *lzma.Reader2 // nil between blocks
	start, data  int64         // the positions of the block's header and content
	stated       [2]int64      // compressed and uncompressed size; -1 if the header has none
	uncompressed int64         // bytes of the content so far
	sum          hash.Hash     // of the content; nil for none
}

func xzError(what string) error { return errors.New("not a valid xz file: " + what) }

// Read reads the content of a stream.
func (x *xzReader) Read(p []byte) (n int, err error) {
	// The LZMA2 decoder panics on some invalid input.
	defer func() {
		if r := recover(); r != nil {
			n, err = 0, xzError(fmt.Sprint(r))
		}
	}()
	for n == 0 && err == nil {
		if x.block == nil {
			err = x.nextBlock()
			continue
		}
		n, err = x.block.Read(p)
		x.uncompressed += int64(n)
		if x.sum != nil {
			x.sum.Write(p[:n])
		}
		if err == io.EOF {
			err = x.endBlock()
		}
	}
	if err == io.EOF && x.inStream {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// xzCompressed is the input of the LZMA2 decoder. It counts the bytes.
type xzCompressed struct{ *xzReader }

func (c xzCompressed) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// take reads exactly n bytes.
func (x *xzReader) take(n int) ([]byte, error) {
	p := make([]byte, n)
	_, err := io.ReadFull(xzCompressed{x}, p)
	return p, err
}

// nextStream reads the padding after a stream and the header of the next stream. It returns io.EOF at the end of the
// file.
func (x *xzReader) nextStream() (io.Reader, error) {
	for x.n > 0 {
		word, err := x.r.Peek(4)
		if len(word) == 0 {
			return nil, err
		}
		if string(word) != "\x00\x00\x00\x00" {
			break
		}
		_, _ = x.r.Discard(4)
	}
	h, err := x.take(12)
	if err != nil {
		return nil, err
	}
	if string(h[:6]) != xzMagic || h[6] != 0 || crc32.ChecksumIEEE(h[6:8]) != little.Uint32(h[8:]) {
		return nil, xzError("stream header")
	}
	if xzChecks[h[7]] == nil {
		return nil, xzError(fmt.Sprintf("unknown check %d", h[7]))
	}
	x.inStream, x.check, x.blocks, x.records = true, h[7], 0, x.records[:0]
	return x, nil
}

// nextBlock reads the header of a block (section 3.1), or the end of the stream.
func (x *xzReader) nextBlock() error {
	size, err := x.r.Peek(1)
	if err != nil {
		return err
	}
	if size[0] == 0 {
		return x.endStream()
	}
	x.start = x.n
	h, err := x.take((int(size[0]) + 1) * 4)
	if err != nil {
		return err
	}
	body, flags := h[:len(h)-4], h[1]
	if crc32.ChecksumIEEE(body) != little.Uint32(h[len(body):]) || flags&0x3c != 0 {
		return xzError("block header")
	}
	rest := body[2:]
	for i, flag := range []byte{0x40, 0x80} {
		x.stated[i] = -1
		if flags&flag != 0 {
			size, n := binary.Uvarint(rest)
			x.stated[i], rest = int64(size), rest[max(n, 0):]
		}
	}
	// The number of LZMA2, the length of its properties, and the one property.
	if flags&3 != 0 || len(rest) < 3 || rest[0] != 0x21 || rest[1] != 1 {
		return xzError("has another filter than LZMA2")
	}
	dictionary, err := lzma.DecodeDictCap(rest[2])
	if err != nil || len(bytes.Trim(rest[3:], "\x00")) != 0 {
		return xzError("block header")
	}
	if dictionary > maxDictionary {
		return fmt.Errorf("asks for a dictionary of %d bytes, more than the %d that are allowed", dictionary, maxDictionary)
	}
	if x.dictionaries += dictionary; x.dictionaries > maxDictionaries {
		return errors.New("has too many blocks")
	}
	x.data, x.uncompressed, x.sum = x.n, 0, xzChecks[x.check]()
	x.block, err = lzma.Reader2Config{DictCap: int(dictionary)}.NewReader2(xzCompressed{x})
	return err
}

// xzChecks has the hash of every check, nil for none.
var xzChecks = map[byte]func() hash.Hash{
	0:  func() hash.Hash { return nil },
	1:  func() hash.Hash { return crc32.NewIEEE() },
	4:  func() hash.Hash { return crc64.New(crc64.MakeTable(crc64.ECMA)) },
	10: sha256.New,
}

// endBlock checks the data after the content of a block, and adds the block to the index.
func (x *xzReader) endBlock() error {
	x.block = nil
	for i, size := range []int64{x.n - x.data, x.uncompressed} {
		if x.stated[i] >= 0 && x.stated[i] != size {
			return xzError("a block is not as long as it says")
		}
	}
	padding := int(x.data-x.n) & 3
	end := make([]byte, padding)
	if x.sum != nil {
		end = x.sum.Sum(end)
		if x.sum.Size() <= 8 {
			slices.Reverse(end[padding:]) // xz is little-endian, unlike Go's hashes
		}
	}
	got, err := x.take(len(end))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, end) {
		return xzError("a block has another checksum or padding")
	}
	x.blocks++
	x.records = binary.AppendUvarint(x.records, uint64(x.n-x.start-int64(padding)))
	x.records = binary.AppendUvarint(x.records, uint64(x.uncompressed))
	return nil
}

// endStream reads the index and the footer (sections 4 and 2.1.2), which the blocks determine completely. It returns
// io.EOF.
func (x *xzReader) endStream() error {
	want := append(binary.AppendUvarint([]byte{0}, x.blocks), x.records...)
	want = append(want, make([]byte, -len(want)&3)...)
	want = little.AppendUint32(want, crc32.ChecksumIEEE(want))
	footer := append(little.AppendUint32(nil, uint32(len(want)/4-1)), 0, x.check)
	want = append(append(little.AppendUint32(want, crc32.ChecksumIEEE(footer)), footer...), "YZ"...)
	got, err := x.take(len(want))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return xzError("the index or the footer does not describe the blocks")
	}
	x.inStream = false
	return io.EOF
}
