package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/exacttar"
	"github.com/modproxy/modproxy/ledger"
)

const (
	// MaxHead is the limit of the result of [ReadHead], in bytes: 65 MiB and 2 KiB, for the manifest, the index and their headers.
	MaxHead = maxManifest + maxIndex + 2<<10

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

// archive returns a reader of the tar archive of a bundle.
func archive(r io.Reader) exacttar.Reader {
	return exacttar.Reader{R: r, What: "bundle", Remedy: "copy it again, or export it again"}
}

// ReadHead returns the bytes of the manifest and the index at the beginning of a bundle. It does not verify them.
func ReadHead(r io.Reader) ([]byte, error) {
	var head bytes.Buffer
	a := archive(io.TeeReader(r, &head))
	for _, name := range []string{manifestName, indexName} {
		if _, err := a.First(name, maxIndex); err != nil {
			return nil, err
		}
	}
	return head.Bytes(), nil
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
	b.head, b.size = head.Bytes(), int64(head.Len())+exacttar.End
	for _, p := range index.Packages {
		for _, size := range []int64{p.Facts.Size, p.Package.Size} {
			b.size += exacttar.Size(size)
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
	if err := b.tar.WriteHeader(exacttar.Header(name, size)); err != nil {
		return err
	}
	if _, err := io.Copy(b.tar, content); err != nil {
		return err
	}
	return b.tar.Flush()
}

// Close ends the bundle. All packages of the index must have been added.
func (b *Writer) Close() error { return b.tar.Close() }
