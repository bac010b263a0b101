package pack

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy"
)

const (
	mode           = 0o644
	modeExecutable = 0o755
)

var compressors = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, 6)
	if err != nil {
		panic(err) // 6 is a level
	}
	return w
}}

// Packed says what [Builder.Pack] has written.
type Packed struct {
	Sum   modproxy.Sum // names the content
	Size  int64        // of what was written, in bytes
	Notes string       // see the package comment
}

// Pack writes the package to w. Nothing that Pack wrote before an error is a package.
//
// With an empty root the package is the whole tree. Otherwise root is a path whose
// components are patterns of [path.Match], as in a subdirectory like "*": it must
// match exactly one directory, which is not a link, and that becomes the root of the
// package. Only what is below it is judged and packed; but links may name what is
// beside it, as they may for a client that unpacks everything before it looks for
// the subdirectory.
//
// Pack may be called again, with the same root or another.
func (b *Builder) Pack(w io.Writer, root string) (Packed, error) {
	if b.err != nil {
		return Packed{}, b.err
	}
	dir, err := b.root.glob(root)
	if err != nil {
		return Packed{}, err
	}
	items, notes, err := b.root.list(dir, b.tally.Limits)
	if err != nil {
		return Packed{}, err
	}
	if err := b.spool.flush(); err != nil {
		return Packed{}, err
	}
	out := &meter{w: w, max: b.tally.Packed}
	sum, err := b.write(out, items)
	if err != nil {
		return Packed{}, err
	}
	return Packed{Sum: sum, Size: out.n, Notes: notes.all()}, nil
}

func (b *Builder) write(w io.Writer, items []item) (modproxy.Sum, error) {
	zw := compressors.Get().(*gzip.Writer)
	defer compressors.Put(zw)
	defer zw.Reset(nil)
	zw.Reset(w)
	zw.ModTime = time.Unix(0, 0) // the zero Time is no time, but not four zero bytes
	tw := tar.NewWriter(zw)
	sum := newSummer()
	for _, it := range items {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: it.name, Size: it.node.size, Mode: mode, ModTime: time.Unix(0, 0)}
		if it.node.executable {
			h.Mode = modeExecutable
		}
		if err := tw.WriteHeader(h); err != nil {
			return "", fmt.Errorf("package: %q: %w", it.name, err)
		}
		if err := b.spool.copyTo(io.MultiWriter(tw, sum.file), it.node.off, it.node.size); err != nil {
			return "", fmt.Errorf("package: %q: %w", it.name, err)
		}
		sum.next(it.name)
	}
	if err := tw.Close(); err != nil {
		return "", fmt.Errorf("package: %w", err)
	}
	if err := zw.Close(); err != nil {
		return "", fmt.Errorf("package: %w", err)
	}
	return sum.sum(), nil
}

// A meter counts what is written and stops what is more than max.
type meter struct {
	w      io.Writer
	n, max int64
}

func (m *meter) Write(p []byte) (int, error) {
	if int64(len(p)) > m.max-m.n {
		return 0, refuse("more than the %d bytes that are allowed when packed", m.max)
	}
	n, err := m.w.Write(p)
	m.n += int64(n)
	return n, err
}

// A summer makes the sum of a package from its files in ascending order, as Hash1 of
// golang.org/x/mod/sumdb/dirhash defines it, in one pass.
type summer struct {
	file, all hash.Hash // file takes the content of the next one
	digest    []byte
}

func newSummer() *summer { return &summer{file: sha256.New(), all: sha256.New()} }

// next ends the file that was written last.
func (s *summer) next(name string) {
	s.digest = s.file.Sum(s.digest[:0])
	fmt.Fprintf(s.all, "%x  %s\n", s.digest, name)
	s.file.Reset()
}

func (s *summer) sum() modproxy.Sum {
	return modproxy.Sum("h1:" + base64.StdEncoding.EncodeToString(s.all.Sum(nil)))
}
