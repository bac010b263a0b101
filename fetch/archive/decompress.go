package archive

import (
	"bufio"
	"compress/bzip2"
	"io"

	"github.com/klauspost/compress/gzip"
)

// A decompressor reads compressed members, one behind the other, each with a checksum at its end.
type decompressor interface {
	io.Reader
	// last makes Read return io.EOF at the end of the current member.
	last()
}

func newDecompressor(format Format, compressed *bufio.Reader) (decompressor, error) {
	switch format {
	case TarBzip2:
		b := &bzip2Reader{compressed: zeroEnded{Reader: compressed}}
		b.r = bzip2.NewReader(&b.compressed)
		return b, nil
	case TarXz:
		return &xzReader{r: compressed}, nil
	}
	r, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	return &gzipReader{Reader: r, compressed: compressed}, nil
}

type gzipReader struct {
	*gzip.Reader
	compressed *bufio.Reader
	isLast     bool
}

func (g *gzipReader) last() { g.isLast = true }

func (g *gzipReader) Read(p []byte) (int, error) {
	for {
		n, err := g.Reader.Read(p)
		if n > 0 || err != io.EOF || g.isLast {
			return n, err
		}
		if err := g.Reset(g.compressed); err != nil {
			return 0, err // io.EOF without another member
		}
		g.Multistream(false)
	}
}

// A bzip2Reader has two zeros follow the file: by them the decoder sees that there is
// no other member, and returns errNoMember, whatever the file ends with.
type bzip2Reader struct {
	r          io.Reader
	compressed zeroEnded
	isLast     bool
	err        error // of the last Read
}

const errNoMember = bzip2.StructuralError("bad magic value in continuation file")

func (b *bzip2Reader) last() { b.isLast = true }

func (b *bzip2Reader) Read(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	n, b.err = b.r.Read(p)
	if b.err == errNoMember && (b.isLast || b.compressed.zeros == maxZeros) {
		b.err = io.EOF
	}
	return n, b.err
}

// A zeroEnded is a file with zeros behind it.
type zeroEnded struct {
	*bufio.Reader
	zeros int // that were read
}

const maxZeros = 2

func (z *zeroEnded) ReadByte() (byte, error) {
	c, err := z.Reader.ReadByte()
	if err == io.EOF && z.zeros < maxZeros {
		z.zeros++
		return 0, nil
	}
	return c, err
}
