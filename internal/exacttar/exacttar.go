// Package exacttar reads and writes tar archives whose bytes depend on the names, sizes and contents of their files only.
//
//	w := tar.NewWriter(out)
//	err := w.WriteHeader(exacttar.Header("manifest", size))
//
//	r := exacttar.Reader{R: in, What: "bundle", Remedy: "copy it again"}
//	name, size, err := r.Next()
//	_, err = io.Copy(to, r.Content(name, size))
//
// Invariants: an archive has regular files in USTAR headers with mode 0644, and zero or empty values otherwise; the padding of blocks is
// zero; nothing follows the two zero blocks at the end. A [Reader] stops at the first other byte. It never reads ahead.
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

// A Reader reads an archive from start to end. Its errors are [modproxy.ErrInvalid] for an archive that was changed or cut off, and those
// of R.
type Reader struct {
	R      io.Reader
	At     int64  // offset of the next byte
	What   string // names the archive in errors, such as "bundle"
	Remedy string // advice for the error about an archive that was cut off, such as "copy it again"
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
}

// read fills b. what names the content for messages.
func (r *Reader) read(b []byte, what string) error {
	n, err := io.ReadFull(r.R, b)
	r.At += int64(n)
	return r.cut(err, what)
}

// cut returns err, or, at an unexpected end, an error that says so.
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

// Next reads the header of the next file. If the archive ends, Next reads the end, and the error is [io.EOF]. The name is not trusted.
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

// First reads the file at the beginning of an archive, whose name is known. If the archive begins with anything else, or if the file is
// empty or larger than most bytes, the error says that this is not such an archive.
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

// File reads a file whose name and size are known, and which has at most a few megabytes.
func (r *Reader) File(name string, size int64) ([]byte, error) {
	if err := r.Header(name, size); err != nil {
		return nil, err
	}
	return r.bytes(name, size)
}

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

// end reads the last bytes of the archive, which are zero.
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

// Content returns a reader of the content of a file whose header was read. It reads the padding with the last bytes.
func (r *Reader) Content(name string, size int64) *Content { return &Content{r, name, size, size, nil} }

// Content reads the content of a file.
type Content struct {
	from *Reader
	name string
	size int64
	left int64
	err  error
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

// Skip seeks past the content without reading it. s is the underlying reader.
func (c *Content) Skip(s io.Seeker) error {
	c.from.At += c.left
	c.left = 0
	if _, err := s.Seek(c.from.At, io.SeekStart); err != nil {
		return err
	}
	return c.from.fill(c.name, c.size)
}
