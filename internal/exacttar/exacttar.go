// Package exacttar reads and writes tar archives that have only one form for the same files.
//
//	w := tar.NewWriter(out)
//	err := w.WriteHeader(exacttar.Header("manifest", size))
//
//	r := exacttar.Reader{R: in, What: "bundle", Remedy: "copy it again"}
//	name, size, err := r.Next()
//	_, err = io.Copy(to, r.Content(name, size))
//
// Invariants: the bytes of an archive depend only on the names, sizes and contents of its files, and on their order. All files are regular.
// Headers are in USTAR format, with mode 0644; other fields are zero or empty. Padding is zero. Nothing follows the two zero blocks at the end.
// A [Reader] returns an error at the first byte that breaks these rules. It does not read ahead.
package exacttar

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
)

const (
	block = 512 // size of a tar block in bytes

	// MaxFile is the maximum size of a file, in bytes.
	MaxFile = 8<<30 - 1
	// End is the size of the end of an archive, in bytes.
	End = 2 * block
)

// Header returns the only valid header of a file with this name and size.
func Header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, Format: tar.FormatUSTAR}
}

// Size returns the number of bytes that a file of this size takes in an archive.
func Size(size int64) int64 { return block + size + padding(size) }

// padding returns the number of bytes that fill the last block of a file.
func padding(size int64) int64 { return -size & (block - 1) }

// A Reader reads an archive from start to end. If the archive was changed or cut off, its errors are [modproxy.ErrInvalid]. Other errors are
// those of R. A Reader is not safe for concurrent use.
type Reader struct {
	R      io.Reader
	At     int64  // offset of the next byte of R
	What   string // name of the archive in errors, such as "bundle"
	Remedy string // remedy in the error for an archive that was cut off, such as "copy it again"
}

// wrong returns an error that is [modproxy.ErrInvalid].
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
}

// read fills b. what is the name of the content in errors.
func (r *Reader) read(b []byte, what string) error {
	n, err := io.ReadFull(r.R, b)
	r.At += int64(n)
	return r.cut(err, what)
}

// cut returns err. For an unexpected end, it returns an error with the position and the remedy.
func (r *Reader) cut(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return wrong("the %s is cut off after %d bytes, in %s: %s", r.What, r.At, what, r.Remedy)
	}
	return err
}

// expect reads bytes that must equal want.
func (r *Reader) expect(want []byte, what string) error {
	is := make([]byte, len(want))
	err := r.read(is, what)
	if err == nil && !bytes.Equal(is, want) {
		err = wrong("before byte %d, %s was changed", r.At, what)
	}
	return err
}

// Header reads the header of the next file, whose name and size are known.
func (r *Reader) Header(name string, size int64) error {
	var want bytes.Buffer
	if err := tar.NewWriter(&want).WriteHeader(Header(name, size)); err != nil {
		return err
	}
	return r.expect(want.Bytes(), "the header of "+name)
}

// Next reads the header of the next file. At the end of the archive, it verifies the end, and the error is [io.EOF]. The caller must check the
// name.
func (r *Reader) Next() (name string, size int64, err error) {
	var is [block]byte
	if err := r.read(is[:], "the header of a file"); err != nil {
		return "", 0, err
	}
	if is == [block]byte{} {
		if err := r.end(End - block); err != nil {
			return "", 0, err
		}
		return "", 0, io.EOF
	}
	name = strings.TrimRight(string(is[:100]), "\x00")
	size, err = strconv.ParseInt(strings.TrimRight(string(is[124:136]), "\x00 "), 8, 64)
	again := Reader{R: bytes.NewReader(is[:])}
	if err != nil || size < 0 || again.Header(name, size) != nil {
		return "", 0, wrong("before byte %d, the header of a file was changed", r.At)
	}
	return name, size, nil
}

// First reads the first file of an archive, whose name is known. If the archive begins with another name, or if the file is empty or larger than
// most bytes, the error says that R is not such an archive.
func (r *Reader) First(name string, most int64) ([]byte, error) {
	var is [block]byte
	err := r.read(is[:], "the header of "+name)
	if err != nil && (!errors.Is(err, modproxy.ErrInvalid) || bytes.HasPrefix(is[:], []byte(name))) {
		return nil, err
	}
	again := Reader{R: bytes.NewReader(is[:])}
	named, size, err := again.Next()
	if err != nil || named != name || size == 0 || size > most {
		return nil, wrong("this is not a %s: it does not begin with a %s", r.What, name)
	}
	return r.bytes(name, size)
}

// File reads the next file, whose name and size are known, into memory.
func (r *Reader) File(name string, size int64) ([]byte, error) {
	if err := r.Header(name, size); err != nil {
		return nil, err
	}
	return r.bytes(name, size)
}

// bytes reads the content of a file, and its padding.
func (r *Reader) bytes(name string, size int64) ([]byte, error) {
	text := make([]byte, size)
	if err := r.read(text, name); err != nil {
		return nil, err
	}
	return text, r.fill(name, size)
}

// fill reads the padding of a file.
func (r *Reader) fill(name string, size int64) error {
	return r.expect(make([]byte, padding(size)), "the padding of "+name)
}

// End reads the end of the archive.
func (r *Reader) End() error { return r.end(End) }

// end reads the last bytes of the archive, which must be zero. left is their number.
func (r *Reader) end(left int) error {
	if err := r.expect(make([]byte, left), "the end of the "+r.What); err != nil {
		return err
	}
	switch n, err := io.ReadFull(r.R, make([]byte, 1)); {
	case n > 0:
		return wrong("data follows the end of the %s, at byte %d", r.What, r.At)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// Content returns a reader of the content of a file whose header was read. With the last bytes, it also reads the padding.
func (r *Reader) Content(name string, size int64) *Content { return &Content{r, name, size, size, nil} }

// Content reads the content of a file.
type Content struct {
	from *Reader
	name string
	size int64
	left int64 // bytes that were not read yet
	err  error // result of all further calls of Read
}

// Read implements [io.Reader].
func (c *Content) Read(b []byte) (n int, err error) {
	if c.err == nil && c.left > 0 {
		n, err = c.from.R.Read(b[:min(int64(len(b)), c.left)])
		c.from.At += int64(n)
		if c.left -= int64(n); c.left > 0 || err != nil && !errors.Is(err, io.EOF) {
			c.err = c.from.cut(err, c.name)
		}
	}
	if c.err == nil && c.left == 0 {
		if c.err = c.from.fill(c.name, c.size); c.err == nil {
			c.err = io.EOF
		}
	}
	return n, c.err
}

// Skip moves to the next file without reading the content. s must be the R of the Reader.
func (c *Content) Skip(s io.Seeker) error {
	c.from.At += c.left
	c.left = 0
	if _, err := s.Seek(c.from.At, io.SeekStart); err != nil {
		return err
	}
	return c.from.fill(c.name, c.size)
}
