package archive

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy/pack"
)

func unpackTar(in *input, size int64, format Format, b *pack.Builder) error {
	r, err := newDecompressor(format, bufio.NewReaderSize(io.NewSectionReader(in, 0, size), 64<<10))
	if err != nil {
		return err
	}
	s := &expanded{r: r, in: in}
	if err := readTar(s, b); err != nil {
		return err
	}
	// Clients ignore bytes after the tar archive. But the compressed member in which it ends has its checksum at its end.
	r.last()
	if _, err := io.Copy(io.Discard, s); err != nil {
		return fmt.Errorf("after the end of the tar archive: %w", err)
	}
	return nil
}

// An expanded is the output of a decompressor, within the limits.
type expanded struct {
	r  io.Reader
	in *input

	inTarHeader bool
	header      int // bytes of the current tar header
}

func (e *expanded) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err := e.in.expand(n); err != nil {
		return 0, err
	}
	if e.inTarHeader {
		if e.header += n; e.header > maxHeader {
			return 0, e.in.stop(refuse("more than the %d bytes that are allowed for one header", maxHeader))
		}
	}
	return n, err
}

func readTar(s *expanded, b *pack.Builder) error {
	tr := tar.NewReader(s)
	last := ""
	for n := 0; ; n++ {
		s.inTarHeader, s.header = true, 0
		h, err := tr.Next()
		s.inTarHeader = false
		switch {
		case err == io.EOF:
			return nil
		case err != nil && n == 0:
			return fmt.Errorf("first entry: %w", err)
		case err != nil:
			return fmt.Errorf("after %.200q: %w", last, err)
		case n >= b.Limits().Entries:
			return refuse("%.200q: more than the %d entries that are allowed (operator: fetch.max_files)", h.Name, b.Limits().Entries)
		}
		last = h.Name
		if err := unpackTarEntry(h, tr, b); err != nil {
			return err
		}
		// Content that the builder did not read counts as content, not as header.
		if _, err := io.Copy(io.Discard, tr); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

func unpackTarEntry(h *tar.Header, r io.Reader, b *pack.Builder) error {
	kind := h.Typeflag
	if kind != tar.TypeXGlobalHeader && h.FileInfo().IsDir() {
		kind = tar.TypeDir // by its mode or its type: clients check either
	}
	name := cleanName(h.Name)
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			kind = tar.TypeGNUSparse
		}
	}
	if h.Size != 0 && (kind == tar.TypeDir || kind == tar.TypeLink || kind == tar.TypeSymlink) {
		return refuse("%.200q: is a directory or a link, and has content", h.Name)
	}
	switch kind {
	case tar.TypeReg:
		return b.File(name, h.Mode&0o100 != 0, r)
	case tar.TypeDir:
		if name == "" {
			return nil
		}
		return b.Dir(name)
	case tar.TypeSymlink:
		return b.Link(name, h.Linkname)
	case tar.TypeLink:
		return b.Hardlink(name, cleanName(h.Linkname))
	case tar.TypeXGlobalHeader:
		for _, key := range []string{"path", "linkpath", "size"} { // some readers of tar apply it, the clients do not
			if _, ok := h.PAXRecords[key]; ok {
				return refuse("%.200q: a global header sets the %s of every entry", h.Name, key)
			}
		}
		return nil
	case tar.TypeGNUSparse:
		return refuse("%.200q: is a sparse file", h.Name)
	case tar.TypeChar, tar.TypeBlock:
		return refuse("%.200q: is a device", h.Name)
	case tar.TypeFifo:
		return refuse("%.200q: is a named pipe", h.Name)
	}
	return refuse("%.200q: has the unknown type %q", h.Name, h.Typeflag)
}

// A decompressor reads compressed members in sequence. Each has a checksum at its end.
type decompressor interface {
	io.Reader
	// last makes Read return io.EOF at the end of the current member.
	last()
}

func newDecompressor(format Format, compressed *bufio.Reader) (decompressor, error) {
	switch format {
	case TarBzip2:
		b := &bzip2Reader{}
		b.compressed.Reader = compressed
		b.Reader = bzip2.NewReader(&b.compressed)
		return b, nil
	case TarXz:
		return &members{next: (&xzReader{r: compressed}).nextStream}, nil
	case TarGzip:
		zr := new(gzip.Reader)
		return &members{next: func() (io.Reader, error) {
			err := zr.Reset(compressed)
			zr.Multistream(false)
			return zr, err
		}}, nil
	case Zip: // not a stream
	}
	return nil, refuse("no archive format")
}

// A members reads the readers from next, until next returns io.EOF.
type members struct {
	next    func() (io.Reader, error)
	current io.Reader
	isLast  bool
}

func (m *members) last() { m.isLast = true }

func (m *members) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil {
		switch {
		case m.current != nil:
			if n, err = m.current.Read(p); err == io.EOF {
				m.current, err = nil, nil
			}
		case m.isLast:
			err = io.EOF
		default:
			m.current, err = m.next()
		}
	}
	return n, err
}

// A bzip2Reader, after last, appends two zeros to the file. By them the decoder detects that no other member follows.
type bzip2Reader struct {
	io.Reader
	compressed struct{ *bufio.Reader }
	isLast     bool
}

func (b *bzip2Reader) last() {
	b.isLast = true
	b.compressed.Reader = bufio.NewReader(io.MultiReader(b.compressed.Reader, strings.NewReader("\x00\x00")))
}

func (b *bzip2Reader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.isLast && err == bzip2.StructuralError("bad magic value in continuation file") {
		err = io.EOF
	}
	return n, err
}
