package archive

import (
	"bufio"
	"compress/bzip2"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// A member is a reader of compressed members, one behind the other, each with a
// checksum at its end.
type member interface {
	io.Reader
	// last makes io.EOF of the end of the member that is being read.
	last()
}

type gzipReader struct {
	*gzip.Reader
	compressed *bufio.Reader
	isLast     bool
}

func newGzipReader(compressed *bufio.Reader) (*gzipReader, error) {
	r, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	return &gzipReader{Reader: r, compressed: compressed}, nil
}

func (g *gzipReader) last() { g.isLast = true }

func (g *gzipReader) Read(p []byte) (int, error) {
	for {
		n, err := g.Reader.Read(p)
		if n > 0 || err != io.EOF || g.isLast {
			return n, err
		}
		if err := g.Reset(g.compressed); err != nil {
			return 0, err // io.EOF where there is none
		}
		g.Multistream(false)
	}
}

type bzip2Reader struct{ r io.Reader }

// newBzip2Reader has two zeros follow the file: by them the decoder sees that there is
// no other member, and says errNoMember, whatever the file ends with.
func newBzip2Reader(compressed *bufio.Reader) *bzip2Reader {
	return &bzip2Reader{bzip2.NewReader(io.MultiReader(compressed, strings.NewReader("\x00\x00")))}
}

const errNoMember = bzip2.StructuralError("bad magic value in continuation file")

// last does nothing: the end of every member that nothing follows is io.EOF.
func (b *bzip2Reader) last() {}

func (b *bzip2Reader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == errNoMember {
		err = io.EOF
	}
	return n, err
}
