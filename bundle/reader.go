package bundle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"golang.org/x/mod/sumdb/note"

	"github.com/modproxy/modproxy"
)

// A Reader reads a bundle from start to end. Everything that it returns has been verified, except the bytes of a package: their reader
// returns an error at the end if they are wrong. Errors are [modproxy.ErrInvalid] for a bundle that was changed, and those of the
// underlying reader.
type Reader struct {
	*Head

	src  source
	next int   // index of the next package
	body *body // of the last package
}

// NewReader reads the manifest and the index. A key of trust must have signed the manifest. The error is an [*Untrusted] if another key
// signed it.
func NewReader(r io.Reader, trust note.Verifiers) (*Reader, error) {
	b := &Reader{src: source{r: r}}
	text, err := b.src.first(manifestName, maxManifest)
	if err != nil {
		return nil, err
	}
	head, err := openManifest(text, trust)
	if err != nil {
		return nil, err
	}
	b.Head = &head
	if text, err = b.src.file(indexName, head.Manifest.Index); err != nil {
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
		if err := b.src.end(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	e := &Entry{Package: b.Head.Index.Packages[b.next]}
	b.next++
	name := factsName(b.next)
	text, err := b.src.file(name, e.Package.Facts)
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
	if err := b.src.header(name, e.Package.Package.Size); err != nil {
		return nil, err
	}
	e.at = b.src.at
	b.body = &body{&b.src, name, e.Package.Package, e.Package.Package.Size, sha256.New(), nil}
	e.Reader = b.body
	return e, nil
}

// skip seeks past the package that was returned last, without reading it. r is the underlying reader.
func (b *Reader) skip(r io.Seeker) error {
	p := b.body
	b.body = nil
	b.src.at += p.left
	if _, err := r.Seek(b.src.at, io.SeekStart); err != nil {
		return err
	}
	return b.src.fill(p.name, p.content.Size)
}

// body reads a package.
type body struct {
	src     *source
	name    string
	content Content
	left    int64
	hash    hash.Hash
	err     error
}

// Read returns [io.EOF] after the last byte, if the bytes match the index.
func (p *body) Read(b []byte) (n int, err error) {
	if p.err != nil {
		return 0, p.err
	}
	if p.left > 0 {
		n, err = p.src.r.Read(b[:min(int64(len(b)), p.left)])
		p.src.at += int64(n)
		p.left -= int64(n)
		p.hash.Write(b[:n])
		if p.left > 0 || err != nil && !errors.Is(err, io.EOF) {
			p.err = p.src.cut(err, p.name)
			return n, p.err
		}
	}
	p.err = io.EOF
	if modproxy.Digest(p.hash.Sum(nil)) != p.content.Digest {
		p.err = wrong("%s, which ends at byte %d, was changed", p.name, p.src.at)
	} else if err := p.src.fill(p.name, p.content.Size); err != nil {
		p.err = err
	}
	return n, p.err
}
