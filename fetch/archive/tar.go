package archive

import (
	"archive/tar"
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/modproxy/modproxy/pack"
)

func unpackTar(in *input, size int64, format Format, out *output, b *pack.Builder, l Limits) error {
	compressed := bufio.NewReaderSize(io.NewSectionReader(in, 0, size), 64<<10)
	var r member
	var err error
	switch format {
	case TarGzip:
		r, err = newGzipReader(compressed)
	case TarBzip2:
		r = newBzip2Reader(compressed)
	case TarXz:
		r = &xzReader{r: compressed}
	}
	if err != nil {
		return err
	}
	s := &stream{r: r, out: out}
	if err := readTar(s, b, l); err != nil {
		return err
	}
	// Nobody reads what follows the end of the tar archive. But what is compressed
	// with it has its checksum behind it, and that is read.
	r.last()
	if _, err := io.Copy(io.Discard, s); err != nil {
		return fmt.Errorf("after the end of the tar archive: %w", err)
	}
	return nil
}

func readTar(s *stream, b *pack.Builder, l Limits) error {
	tr := tar.NewReader(s)
	last := ""
	for n := 0; ; n++ {
		s.expectHeader()
		h, err := tr.Next()
		s.expectContent()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && n == 0:
			return fmt.Errorf("first entry: %w", err)
		case err != nil:
			return fmt.Errorf("after %.200q: %w", last, err)
		case n >= l.Entries:
			return refuse("%.200q: more than the %d entries that are allowed", h.Name, l.Entries)
		}
		last = h.Name
		if err := tarEntry(h, tr, b); err != nil {
			return err
		}
		// What the builder did not ask for is still counted as content.
		if _, err := io.Copy(io.Discard, tr); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

func tarEntry(h *tar.Header, r io.Reader, b *pack.Builder) error {
	kind := h.Typeflag
	if kind != tar.TypeXGlobalHeader && h.FileInfo().IsDir() {
		kind = tar.TypeDir // by its mode, if not by its type: clients go by either
	}
	name := cleanName(h.Name)
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return refuse("%.200q: is a sparse file", h.Name)
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
		return checkGlobal(h)
	case tar.TypeGNUSparse:
		return refuse("%.200q: is a sparse file", h.Name)
	case tar.TypeChar, tar.TypeBlock:
		return refuse("%.200q: is a device", h.Name)
	case tar.TypeFifo:
		return refuse("%.200q: is a named pipe", h.Name)
	}
	return refuse("%.200q: has the type %q, which is none that a package has", h.Name, h.Typeflag)
}

// checkGlobal ignores a header that is meant for all entries that follow, as the
// clients do, unless it says something that other readers of tar heed.
func checkGlobal(h *tar.Header) error {
	for _, key := range []string{"path", "linkpath", "size"} {
		if _, ok := h.PAXRecords[key]; ok {
			return refuse("%.200q: a global header sets the %s of every entry", h.Name, key)
		}
	}
	return nil
}
