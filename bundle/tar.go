package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

const (
	block    = 512       // size of a tar block in bytes
	maxEntry = 8<<30 - 1 // limit of a USTAR header
	ending   = 2 * block

	// MaxHead is the limit of the result of [ReadHead], in bytes: 65 MiB and 2 KiB, for the manifest, the index and their headers.
	MaxHead = maxManifest + maxIndex + 4*block

	manifestName = "manifest"
	indexName    = "index"
)

func factsName(n int) string { return fmt.Sprintf("%06d.json", n) }

// name returns the name of the nth package.
func (p Package) name(n int) string {
	if p.isZip() {
		return fmt.Sprintf("%06d.zip", n)
	}
	return fmt.Sprintf("%06d.tar.gz", n)
}

// entry returns the only valid header of a file with this name and size.
func entry(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, Format: tar.FormatUSTAR}
}

// padding returns the number of bytes that fill the last block of a file.
func padding(size int64) int64 { return -size & (block - 1) }

// source reads the files of a tar archive whose names and sizes are known. It never reads ahead.
type source struct {
	r  io.Reader
	at int64 // offset of the next byte
}

// read fills b. what names the content for messages.
func (s *source) read(b []byte, what string) error {
	n, err := io.ReadFull(s.r, b)
	s.at += int64(n)
	return s.cut(err, what)
}

// cut returns err, or, at an unexpected end, an error that says so.
func (s *source) cut(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return wrong("the bundle is cut off after %d bytes, in %s: copy it again, or export it again", s.at, what)
	}
	return err
}

// expect reads bytes that must equal want.
func (s *source) expect(want []byte, what string) error {
	is := make([]byte, len(want))
	err := s.read(is, what)
	if err == nil && !bytes.Equal(is, want) {
		err = wrong("before byte %d, %s was changed", s.at, what)
	}
	return err
}

// header reads the header of the next file.
func (s *source) header(name string, size int64) error {
	var want bytes.Buffer
	if err := tar.NewWriter(&want).WriteHeader(entry(name, size)); err != nil {
		return err
	}
	return s.expect(want.Bytes(), "the header of "+name)
}

// fill reads the padding of a file.
func (s *source) fill(name string, size int64) error {
	return s.expect(make([]byte, padding(size)), "the padding of "+name)
}

// file reads a small file.
func (s *source) file(name string, c Content) ([]byte, error) {
	if err := s.header(name, c.Size); err != nil {
		return nil, err
	}
	text := make([]byte, c.Size)
	if err := s.read(text, name); err != nil {
		return nil, err
	}
	if contentOf(text) != c {
		return nil, wrong("%s, which ends at byte %d, was changed", name, s.at)
	}
	return text, s.fill(name, c.Size)
}

// first reads a file of unknown size and content at the beginning of the archive.
func (s *source) first(name string, most int64) ([]byte, error) {
	var is [block]byte
	err := s.read(is[:], "the header of "+name)
	if err != nil && (!errors.Is(err, modproxy.ErrInvalid) || bytes.HasPrefix(is[:], []byte(name))) {
		return nil, err
	}
	size, err := strconv.ParseInt(strings.TrimRight(string(is[124:136]), "\x00 "), 8, 64)
	again := source{r: bytes.NewReader(is[:])}
	if err != nil || size <= 0 || size > most || again.header(name, size) != nil {
		return nil, wrong("this is not a bundle: it does not begin with a %s", name)
	}
	text := make([]byte, size)
	if err := s.read(text, name); err != nil {
		return nil, err
	}
	return text, s.fill(name, size)
}

// ReadHead returns the bytes of the manifest and the index at the beginning of a bundle. It does not verify them.
func ReadHead(r io.Reader) ([]byte, error) {
	var head bytes.Buffer
	s := source{r: io.TeeReader(r, &head)}
	for _, name := range []string{manifestName, indexName} {
		if _, err := s.first(name, maxIndex); err != nil {
			return nil, err
		}
	}
	return head.Bytes(), nil
}

// end reads the end of the archive.
func (s *source) end() error {
	if err := s.expect(make([]byte, ending), "the end of the bundle"); err != nil {
		return err
	}
	switch n, err := io.ReadFull(s.r, make([]byte, 1)); {
	case n > 0:
		return wrong("data follows the end of the bundle, at byte %d", s.at)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// A Writer writes the tar archive of a bundle. [Export.Write] uses one. Other packages use an [Exporter].
type Writer struct {
	ID modproxy.Digest

	tar   *tar.Writer
	head  []byte // the manifest and the index
	size  int64  // of the whole bundle
	index *Index
	next  int // index of the next package
}

// NewWriter prepares a bundle with an index, signed with the key of a ledger. It adds the size and digest of the index to m.
func NewWriter(log *ledger.Log, m Manifest, index *Index) (*Writer, error) {
	text, err := encode(index)
	if err == nil && len(text) > maxIndex {
		err = wrong("an index of %d bytes; the limit is %d: export fewer versions at once", len(text), maxIndex)
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
	signed, err := log.SignBundle(manifest)
	if err == nil && len(signed) > maxManifest {
		err = wrong("a chain of %d bundles is too long: begin a new chain", len(m.Before))
	}
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	b := &Writer{ID: contentOf(manifest).Digest, tar: tar.NewWriter(&head), index: index}
	err = b.write(manifestName, int64(len(signed)), bytes.NewReader(signed))
	if err == nil {
		err = b.write(indexName, int64(len(text)), bytes.NewReader(text))
	}
	b.head, b.size = head.Bytes(), int64(head.Len())+ending
	for _, p := range index.Packages {
		for _, size := range []int64{p.Facts.Size, p.Package.Size} {
			b.size += block + size + padding(size)
		}
	}
	return b, err
}

// Begin writes the beginning of a bundle.
func (b *Writer) Begin(w io.Writer) error {
	b.tar = tar.NewWriter(w)
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
	return b.write(p.name(b.next), p.Package.Size, content)
}

// write writes a file. The content must have the given size.
func (b *Writer) write(name string, size int64, content io.Reader) error {
	if err := b.tar.WriteHeader(entry(name, size)); err != nil {
		return err
	}
	if _, err := io.Copy(b.tar, content); err != nil {
		return err
	}
	return b.tar.Flush()
}

// Close ends the bundle. All packages of the index must have been added.
func (b *Writer) Close() error { return b.tar.Close() }
