package pack

import (
	"archive/tar"
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy"
)

// Verify reads a package to its end and returns the sum of its content. It returns [modproxy.ErrInvalid] if the package
// violates the form that the package comment specifies, or exceeds a limit. It returns an error of r unchanged. It ignores
// Limits.StrictNames.
//
// The limits must not be lower than the limits with which the package was packed.
func Verify(r io.Reader, l Limits) (modproxy.Sum, error) {
	l = l.withDefaults()
	in := &source{r: r, max: l.Packed}
	sum, err := verify(in, l)
	switch {
	case in.err != nil:
		return "", in.err
	case err != nil && !errors.Is(err, modproxy.ErrInvalid):
		return "", refuse("%w", err) // an error of gzip or tar
	}
	return sum, err
}

// buffers are the buffers for reading a package. They are much larger than a small package.
type buffers struct {
	packed *bufio.Reader
	gzip   gzip.Reader
	copied [bufferSize]byte
}

var freeBuffers = sync.Pool{New: func() any { return &buffers{packed: bufio.NewReaderSize(nil, 64<<10)} }}

func verify(in io.Reader, l Limits) (modproxy.Sum, error) {
	b := freeBuffers.Get().(*buffers)
	defer func() {
		b.packed.Reset(nil)
		freeBuffers.Put(b)
	}()
	packed, zr := b.packed, &b.gzip
	packed.Reset(in)
	// The first bytes of gzip: magic, method, flags, four bytes of time.
	if header, err := packed.Peek(8); err == nil && string(header) != "\x1f\x8b\x08\x00\x00\x00\x00\x00" {
		return "", refuse("not gzip, or its header is not empty")
	}
	if err := zr.Reset(packed); err != nil {
		return "", err
	}
	zr.Multistream(false)
	// The headers of one entry take at most two blocks, and a PAX record with its block.
	headers := int64(l.Entries+1) * int64(l.Path+4<<10)
	expanded := &source{r: zr, max: l.Bytes + headers}
	sum, err := verifyTar(expanded, l, b.copied[:])
	if err != nil {
		return "", err
	}
	// tar.Reader has already read the two blocks at the end.
	if n, err := io.Copy(io.Discard, expanded); err != nil || n != 0 {
		return "", errors.Join(refuse("%d bytes follow the archive", n), err)
	}
	if _, err := packed.ReadByte(); err != io.EOF {
		return "", refuse("data follows the gzip member")
	}
	return sum, nil
}

func verifyTar(r io.Reader, l Limits, buf []byte) (modproxy.Sum, error) {
	tr := tar.NewReader(r)
	sum := newSummer()
	t := tally{Limits: l}
	files := make(map[string]bool)
	last := ""
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", fmt.Errorf("after %q: %w", last, err)
		}
		if err := verifyHeader(h, last, &t); err != nil {
			return "", err
		}
		for dir := range newDirs(last, h.Name) {
			if files[dir] {
				return "", refuse("%q: is a file and also a directory", dir)
			}
			if err := t.entry(dir, 0); err != nil {
				return "", err
			}
		}
		files[h.Name], last = true, h.Name
		if _, err := io.CopyBuffer(sum.file, tr, buf); err != nil {
			return "", fmt.Errorf("%q: %w", h.Name, err)
		}
		sum.endFile(h.Name)
	}
	if last == "" {
		return "", refuse("it has no file")
	}
	return sum.sum(), nil
}

func verifyHeader(h *tar.Header, last string, t *tally) error {
	if err := cmp.Or(t.entry(h.Name, 0), CheckName(h.Name), t.content(h.Name, h.Size)); err != nil {
		return err
	}
	records := len(h.PAXRecords)
	if h.PAXRecords["path"] != "" {
		records--
	}
	switch {
	case h.Typeflag != tar.TypeReg:
		return refuse("%q: is not a regular file", h.Name)
	case h.Name <= last:
		return refuse("%q: comes after %q", h.Name, last)
	case leftOut(h.Name):
		return refuse("%q: packages leave .git out", h.Name)
	case h.Mode != mode && h.Mode != modeExecutable:
		return refuse("%q: has mode %#o", h.Name, h.Mode)
	case h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.ModTime.Unix() != 0 || records != 0:
		return refuse("%q: has an owner, a time or other attributes", h.Name)
	}
	return nil
}
