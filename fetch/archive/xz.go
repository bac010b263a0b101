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
	"io"

	"github.com/ulikunitz/xz/lzma"
)

const (
	// maxDictionary bounds the memory that a block may ask for: what xz -9 uses.
	maxDictionary = 64 << 20
	// maxDictionaries bounds what all blocks ask for, one after the other.
	maxDictionaries = 4 << 30
)

var (
	xzMagic       = []byte("\xfd7zXZ\x00")
	xzFooterMagic = []byte("YZ")
)

// An xzReader decompresses the .xz container
// (https://tukaani.org/xz/xz-file-format.txt, version 1.2). The decoder of LZMA2 is
// that of ulikunitz/xz; its reader for the container is not used, because that makes
// a dictionary as large as a block's header asks for, up to 4 GiB.
type xzReader struct {
	in  xzInput
	err error

	streams      int
	isLast       bool // what follows this stream is not read
	check        byte
	block        *xzBlock
	blocks       uint64
	records      hash.Hash // what the index should have
	dictionaries int64
}

// An xzInput counts what is taken from the compressed file.
type xzInput struct {
	r *bufio.Reader
	n int64
}

func (in *xzInput) Read(p []byte) (int, error) {
	n, err := in.r.Read(p)
	in.n += int64(n)
	return n, err
}

// next takes exactly n bytes.
func (in *xzInput) next(n int) ([]byte, error) {
	p := make([]byte, n)
	if _, err := io.ReadFull(in, p); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return p, nil
}

var errXz = errors.New("not a valid xz file")

func xzError(what string) error { return fmt.Errorf("%w: %s", errXz, what) }

func (x *xzReader) last() { x.isLast = true }

func (x *xzReader) Read(p []byte) (n int, err error) {
	if x.err != nil {
		return 0, x.err
	}
	// The decoder of LZMA2 meets a stranger's bytes here, and answers some that
	// cannot be with a panic.
	defer func() {
		if r := recover(); r != nil {
			x.err = xzError(fmt.Sprint(r))
			n, err = 0, x.err
		}
	}()
	for x.err == nil {
		if x.block == nil {
			x.err = x.nextBlock()
			continue
		}
		n, err := x.block.Read(p)
		if err == io.EOF {
			err = x.endBlock()
		}
		x.err = err
		if n > 0 {
			return n, x.err
		}
	}
	return 0, x.err
}

// nextBlock reads up to the content of the next block, in this stream or another one.
// It is io.EOF where the file ends.
func (x *xzReader) nextBlock() error {
	if x.records == nil {
		return x.nextStream()
	}
	size, err := x.in.next(1)
	if err != nil {
		return err
	}
	if size[0] == 0 {
		return x.endStream()
	}
	start := x.in.n - 1
	rest, err := x.in.next((int(size[0])+1)*4 - 1)
	if err != nil {
		return err
	}
	h, err := parseXzBlock(append(size, rest...))
	if err != nil {
		return err
	}
	if h.dictionary > maxDictionary {
		return fmt.Errorf("asks for a dictionary of %d bytes, more than the %d that are allowed", h.dictionary, maxDictionary)
	}
	if x.dictionaries += h.dictionary; x.dictionaries > maxDictionaries {
		return errors.New("has too many blocks")
	}
	x.block = &xzBlock{h: h, in: &x.in, start: start, data: x.in.n, sum: newXzCheck(x.check)}
	config := lzma.Reader2Config{DictCap: max(lzma.MinDictCap, int(h.dictionary))}
	x.block.r, err = config.NewReader2(&x.in)
	return err
}

// nextStream reads a stream's header, and the padding before it.
func (x *xzReader) nextStream() error {
	if x.isLast {
		return io.EOF
	}
	for {
		word, err := x.in.r.Peek(4)
		if len(word) == 0 && err == io.EOF && x.streams > 0 {
			return io.EOF
		}
		if len(word) < 4 {
			return noEOF(err)
		}
		if x.streams == 0 || !bytes.Equal(word, make([]byte, 4)) {
			break
		}
		x.in.r.Discard(4) // it was peeked at
	}
	h, err := x.in.next(12)
	if err != nil {
		return err
	}
	if !bytes.Equal(h[:6], xzMagic) || h[6] != 0 || crc32.ChecksumIEEE(h[6:8]) != binary.LittleEndian.Uint32(h[8:]) {
		return xzError("stream header")
	}
	if newXzCheck(h[7]) == nil {
		return xzError(fmt.Sprintf("unknown check %d", h[7]))
	}
	x.streams++
	x.check, x.blocks, x.records = h[7], 0, sha256.New()
	return nil
}

// endBlock checks what follows a block's content, and notes it for the index.
func (x *xzReader) endBlock() error {
	b := x.block
	x.block = nil
	unpadded, err := b.end()
	if err != nil {
		return err
	}
	x.blocks++
	noteXzRecord(x.records, uint64(unpadded), uint64(b.n))
	return nil
}

func noteXzRecord(h hash.Hash, unpadded, uncompressed uint64) {
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, unpadded), uncompressed))
}

// endStream reads the index, whose first byte was read, and the footer.
func (x *xzReader) endStream() error {
	start := x.in.n - 1
	sum := crc32.NewIEEE()
	sum.Write([]byte{0})
	r := byteReader{io.TeeReader(&x.in, sum)}
	count, err := readXzInt(r)
	if err != nil {
		return err
	}
	if count != x.blocks {
		return xzError("the index has another number of blocks")
	}
	records := sha256.New()
	for range count {
		unpadded, err := readXzInt(r)
		if err != nil {
			return err
		}
		uncompressed, err := readXzInt(r)
		if err != nil {
			return err
		}
		noteXzRecord(records, unpadded, uncompressed)
	}
	for (x.in.n-start)%4 != 0 {
		if c, err := r.ReadByte(); err != nil || c != 0 {
			return errors.Join(xzError("index padding"), err)
		}
	}
	want := sum.Sum32()
	footer, err := x.in.next(4 + 12)
	if err != nil {
		return err
	}
	indexSize := x.in.n - 12 - start
	footerSum, footer := footer[:4], footer[4:]
	switch {
	case binary.LittleEndian.Uint32(footerSum) != want:
		return xzError("the index has another checksum")
	case !bytes.Equal(records.Sum(nil), x.records.Sum(nil)):
		return xzError("the index does not describe the blocks")
	case crc32.ChecksumIEEE(footer[4:10]) != binary.LittleEndian.Uint32(footer),
		!bytes.Equal(footer[10:], xzFooterMagic),
		footer[8] != 0 || footer[9] != x.check,
		(int64(binary.LittleEndian.Uint32(footer[4:]))+1)*4 != indexSize:
		return xzError("stream footer")
	}
	x.records = nil
	return nil
}

// noEOF is the error of a read that had to find something.
func noEOF(err error) error {
	if err == io.EOF || err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// byteReader reads no further than it is asked to.
type byteReader struct{ io.Reader }

func (r byteReader) ReadByte() (byte, error) {
	var p [1]byte
	if _, err := io.ReadFull(r.Reader, p[:]); err != nil {
		return 0, noEOF(err)
	}
	return p[0], nil
}
