package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
)

const (
	block    = 512       // of a tar archive, in bytes
	maxEntry = 8<<30 - 1 // which is what a USTAR header can say
	ending   = 2 * block

	// MaxHead bounds what [ReadHead] returns, in bytes.
	MaxHead = maxManifest + maxIndex + 4*block

	manifestName = "manifest"
	indexName    = "index"
)

func factsName(n int) string   { return fmt.Sprintf("%06d.json", n) }
func packageName(n int) string { return fmt.Sprintf("%06d.tar.gz", n) }

// tarHeader returns the one header that a file of that name and size has.
func tarHeader(name string, size int64) ([]byte, error) {
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, Format: tar.FormatUSTAR})
	return b.Bytes(), err
}

// padding returns how many bytes fill the last block of a file.
func padding(size int64) int64 { return -size & (block - 1) }

// source reads files of a tar archive whose names and sizes are known. It never reads more than it has to.
type source struct {
	r  io.Reader
	at int64 // of the next byte
}

// block reads n bytes of the archive's own into b. what names them.
func (s *source) read(b []byte, what string) error {
	n, err := io.ReadFull(s.r, b)
	s.at += int64(n)
	return s.cut(err, what)
}

// cut returns err, or if it says that there is no more, what that means.
func (s *source) cut(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return wrong("the bundle is cut off after %d bytes, in %s", s.at, what)
	}
	return err
}

// header reads the header of the next file.
func (s *source) header(name string, size int64) error {
	var is [block]byte
	if err := s.read(is[:], "the header of "+name); err != nil {
		return err
	}
	return s.expect(is[:], name, size)
}

func (s *source) expect(is []byte, name string, size int64) error {
	want, err := tarHeader(name, size)
	if err == nil && !bytes.Equal(is, want) {
		err = wrong("at byte %d, where the header of %s with %d bytes should be, is another", s.at-block, name, size)
	}
	return err
}

// first reads the header of the first file, whose size is not known, and returns that.
func (s *source) first(name string, most int64) (int64, error) {
	var is [block]byte
	err := s.read(is[:], "the header of "+name)
	if err != nil && (!errors.Is(err, modproxy.ErrInvalid) || bytes.HasPrefix(is[:], []byte(name))) {
		return 0, err
	}
	size, err := strconv.ParseInt(strings.TrimRight(string(is[124:136]), "\x00 "), 8, 64)
	if err != nil || size <= 0 || size > most || s.expect(is[:], name, size) != nil {
		return 0, wrong("this is not a bundle: it does not begin with a %s", name)
	}
	return size, nil
}

// ReadHead returns what a bundle begins with, as it is in it: the manifest and the index. Nothing is checked yet.
func ReadHead(r io.Reader) ([]byte, error) {
	var head bytes.Buffer
	s := source{r: io.TeeReader(r, &head)}
	for _, name := range []string{manifestName, indexName} {
		size, err := s.first(name, maxIndex)
		if err == nil {
			err = s.read(make([]byte, size+padding(size)), name)
		}
		if err != nil {
			return nil, err
		}
	}
	return head.Bytes(), nil
}

// fill reads what fills the last block of a file.
func (s *source) fill(name string, size int64) error {
	return s.zero(padding(size), "what fills the last block of "+name)
}

func (s *source) zero(n int64, what string) error {
	b := make([]byte, n)
	if err := s.read(b, what); err != nil {
		return err
	}
	if len(bytes.Trim(b, "\x00")) > 0 {
		return wrong("%s, before byte %d, is not zero", what, s.at)
	}
	return nil
}

// file reads a small file whose content is known, but for its header.
func (s *source) file(name string, c Content) ([]byte, error) {
	text := make([]byte, c.Size)
	if err := s.read(text, name); err != nil {
		return nil, err
	}
	if contentOf(text) != c {
		return nil, wrong("%s is not what it was, which ends at byte %d", name, s.at)
	}
	return text, s.fill(name, c.Size)
}

// end reads what is behind the last file.
func (s *source) end() error {
	if err := s.zero(ending, "the end of the bundle"); err != nil {
		return err
	}
	switch n, err := io.ReadFull(s.r, make([]byte, 1)); {
	case n > 0:
		return wrong("something follows the end of the bundle, at byte %d", s.at)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// A Writer writes a bundle.
type Writer struct {
	ID modproxy.Digest

	w     io.Writer
	head  []byte // the manifest and the index
	size  int64  // of all
	index *Index
	next  int // package
}

// A Signer signs manifests. It is a ledger.
type Signer interface {
	SignBundle(text []byte) ([]byte, error)
}

// NewWriter prepares a bundle with an index. m is the manifest but for what it says of the index.
func NewWriter(signer Signer, m Manifest, index *Index) (*Writer, error) {
	text, err := encode(index)
	if err == nil && len(text) > maxIndex {
		err = wrong("an index of %d bytes, more than the %d that a bundle may have: export less at once", len(text), maxIndex)
	}
	if err != nil {
		return nil, err
	}
	m.Index = contentOf(text)
	manifest, err := encode(m)
	if err != nil {
		return nil, err
	}
	manifest = append([]byte(header), manifest...)
	signed, err := signer.SignBundle(manifest)
	if err == nil && len(signed) > maxManifest {
		err = wrong("a chain of %d bundles is too long: begin another", len(m.Before))
	}
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	b := &Writer{ID: contentOf(manifest).Digest, w: &head, index: index}
	err = cmp.Or(b.write(manifestName, int64(len(signed)), bytes.NewReader(signed)), b.write(indexName, int64(len(text)), bytes.NewReader(text)))
	b.head, b.size = head.Bytes(), int64(head.Len())+ending
	for _, p := range index.Packages {
		for _, size := range []int64{p.Facts.Size, p.Package.Size} {
			b.size += block + size + padding(size)
		}
	}
	return b, err
}

// Begin writes what a bundle begins with.
func (b *Writer) Begin(w io.Writer) error {
	b.w = w
	_, err := w.Write(b.head)
	return err
}

// Add writes the next package of the index.
func (b *Writer) Add(facts []byte, content io.Reader) error {
	p := b.index.Packages[b.next]
	b.next++
	if err := b.write(factsName(b.next), int64(len(facts)), bytes.NewReader(facts)); err != nil {
		return err
	}
	return b.write(packageName(b.next), p.Package.Size, content)
}

func (b *Writer) write(name string, size int64, content io.Reader) error {
	head, err := tarHeader(name, size)
	if err == nil {
		_, err = b.w.Write(head)
	}
	if err != nil {
		return err
	}
	switch n, err := io.Copy(b.w, content); {
	case err != nil:
		return err
	case n != size:
		return wrong("%s has %d bytes, and %d were announced", name, n, size)
	}
	_, err = b.w.Write(make([]byte, padding(size)))
	return err
}

// Close ends the bundle, to which every package of the index was added.
func (b *Writer) Close() error {
	_, err := b.w.Write(make([]byte, ending))
	return err
}
