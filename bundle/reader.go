package bundle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"golang.org/x/mod/sumdb/note"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/exacttar"
)

// A Reader reads a bundle from start to end. Everything that it returns has been verified, except the bytes of a package: their reader
// returns an error at the end if they are wrong. Errors are [modproxy.ErrInvalid] for a bundle that was changed, and those of the
// underlying reader.
type Reader struct {
	*Head

	src  exacttar.Reader
	next int   // index of the next package
	body *body // of the last package
}

// NewReader reads the manifest and the index. A key of trust must have signed the manifest. The error is an [*Untrusted] if another key
// signed it.
func NewReader(r io.Reader, trust note.Verifiers) (*Reader, error) {
	b := &Reader{src: archive(r)}
	text, err := b.src.First(manifestName, maxManifest)
	if err != nil {
		return nil, err
	}
	head, err := openManifest(text, trust)
	if err != nil {
		return nil, err
	}
	b.Head = &head
	if text, err = b.file(indexName, head.Manifest.Index); err != nil {
		return nil, err
	}
	head.Index = &Index{}
	if err := decode(text, head.Index); err != nil {
		return nil, fmt.Errorf("the index: %w", err)
	}
	return b, head.check()
}

// An Entry is a package in a bundle.
type Entry struct {
	Package
	Facts   PackageEntry
	Records []modproxy.Record // records of Versions in the exporting ledger, each proved
	io.Reader

	at int64 // offset of the package in the bundle
}

// Next returns the next package. Its reader is valid until the next call of Next. At the end the error is [io.EOF].
func (b *Reader) Next() (*Entry, error) {
	if b.body != nil {
		if _, err := io.Copy(io.Discard, b.body); err != nil {
			return nil, err
		}
		b.body = nil
	}
	if b.next == len(b.Head.Index.Packages) {
		if err := b.src.End(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	e := &Entry{Package: b.Head.Index.Packages[b.next]}
	b.next++
	name := factsName(b.next)
	text, err := b.file(name, e.Package.Facts)
	if err != nil {
		return nil, err
	}
	if err = decode(text, &e.Facts); err == nil && len(e.Facts.Versions) != len(e.Versions) {
		err = wrong("they are about %d versions; the index has %d", len(e.Facts.Versions), len(e.Versions))
	}
	for i := 0; i < len(e.Versions) && err == nil; i++ {
		var rec modproxy.Record
		if rec, err = b.parse(e.Versions[i], e.Facts.Versions[i]); err == nil && rec.Sum != e.Sum {
			err = wrong("the record of %s has the sum %s; the index has %s", e.Versions[i], rec.Sum, e.Sum)
		}
		e.Records = append(e.Records, rec)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	name = e.Package.name(b.next)
	if err := b.src.Header(name, e.Package.Package.Size); err != nil {
		return nil, err
	}
	e.at = b.src.At
	b.body = &body{b.src.Content(name, e.Package.Package.Size), name, e.Package.Package, sha256.New()}
	e.Reader = b.body
	return e, nil
}

// file reads a small file.
func (b *Reader) file(name string, c Content) ([]byte, error) {
	text, err := b.src.File(name, c.Size)
	if err == nil && contentOf(text) != c {
		err = wrong("%s, before byte %d, was changed", name, b.src.At)
	}
	return text, err
}

// skip seeks past the package that was returned last, without reading it. r is the underlying reader.
func (b *Reader) skip(r io.Seeker) error {
	p := b.body
	b.body = nil
	return p.content.Skip(r)
}

// body reads a package.
type body struct {
	content *exacttar.Content
	name    string
	want    Content
	hash    hash.Hash
}

// Read returns [io.EOF] after the last byte, if the bytes match the index.
func (p *body) Read(b []byte) (n int, err error) {
	n, err = p.content.Read(b)
	p.hash.Write(b[:n])
	if errors.Is(err, io.EOF) && modproxy.Digest(p.hash.Sum(nil)) != p.want.Digest {
		err = wrong("%s was changed", p.name)
	}
	return n, err
}
