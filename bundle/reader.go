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

// A Reader reads a bundle from its start to its end. Nothing that it returns is used before it was checked, but for the bytes
// of a package, whose reader has an error at its end if they are not what they were. Errors are [modproxy.ErrInvalid]
// for what is not as it was written, and those of what is read.
type Reader struct {
	*Head

	src  source
	next int   // package
	body *body // of the last one
}

// NewReader reads the manifest, which one of trust has signed, and the index. The error is [Untrusted] when
// another key has signed it.
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
	Facts   Facts
	Records []modproxy.Record // what the ledger has of Versions, each proved
	io.Reader

	at int64 // of the package in the bundle
}

// Next returns the next package, whose reader is good until Next is called again. At the end the error is [io.EOF].
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
		err = wrong("they are about %d versions, and the index has %d", len(e.Facts.Versions), len(e.Versions))
	}
	for i := 0; i < len(e.Versions) && err == nil; i++ {
		var rec modproxy.Record
		if rec, err = b.parse(e.Versions[i], e.Facts.Versions[i]); err == nil && rec.Sum != e.Sum {
			err = wrong("the record of %s says %s, and the index %s", e.Versions[i], rec.Sum, e.Sum)
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

// skip passes over the package that was returned last, whose bytes are not read: r seeks.
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

// Read returns [io.EOF] after all bytes, if they are those that the index says.
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
		p.err = wrong("%s is not what it was, which ends at byte %d", p.name, p.src.at)
	} else if err := p.src.fill(p.name, p.content.Size); err != nil {
		p.err = err
	}
	return n, p.err
}
