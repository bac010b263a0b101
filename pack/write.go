package pack

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy"
)

const (
	mode           = 0o644
	modeExecutable = 0o755
	level          = 6 // of gzip
	bufferSize     = 128 << 10
)

// Packed is what [Builder.Pack] has written.
type Packed struct {
	Sum   modproxy.Sum // names the content
	Size  int64        // of what was written, in bytes
	Notes string       // see the package comment
}

// Pack writes the package to w. What Pack wrote before an error is not a package.
//
// With an empty root the package is the whole tree. Otherwise root is a path whose components are patterns of
// [path.Match], as in a subdirectory like "*": it must match exactly one directory, which is not a link, and
// that becomes the root of the package. Only what is below it is checked and packed; but links may name what is
// beside it, as they may for a client that unpacks everything before it looks for the subdirectory.
//
// Pack may be called again, with the same root or another.
func (b *Builder) Pack(w io.Writer, root string) (Packed, error) {
	if b.err != nil {
		return Packed{}, b.err
	}
	files, notes, err := b.root.files(root, b.tally.Limits)
	if err != nil {
		return Packed{}, err
	}
	if err := b.content.Flush(); err != nil {
		return Packed{}, unavailable(err)
	}
	out := &limitedWriter{w: w, max: b.tally.Packed}
	sum, err := b.write(out, files)
	if err != nil {
		return Packed{}, err
	}
	return Packed{Sum: sum, Size: out.n, Notes: notes.String()}, nil
}

func (b *Builder) write(w io.Writer, files []packedFile) (modproxy.Sum, error) {
	zw, _ := gzip.NewWriterLevel(w, level) // there is such a level
	zw.ModTime = time.Unix(0, 0)           // four zero bytes, which the zero Time is not
	tw := tar.NewWriter(zw)
	sum := newSummer()
	buf := make([]byte, bufferSize)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: f.node.size, Mode: mode, ModTime: time.Unix(0, 0)}
		if f.node.executable {
			h.Mode = modeExecutable
		}
		err := tw.WriteHeader(h)
		if err == nil {
			content := &source{r: io.NewSectionReader(b.file, f.node.offset, f.node.size), max: f.node.size}
			_, err = io.CopyBuffer(io.MultiWriter(tw, sum.file), content, buf)
			if content.err != nil {
				return "", unavailable(content.err)
			}
		}
		if err != nil {
			return "", fmt.Errorf("package: %q: %w", f.name, err)
		}
		sum.endFile(f.name)
	}
	err := tw.Close()
	if err == nil {
		err = zw.Close()
	}
	if err != nil {
		return "", fmt.Errorf("package: %w", err)
	}
	return sum.sum(), nil
}

// A limitedWriter refuses more than max bytes.
type limitedWriter struct {
	w      io.Writer
	n, max int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > l.max-l.n {
		return 0, refuse("more than the %d bytes that are allowed when packed", l.max)
	}
	n, err := l.w.Write(p)
	l.n += int64(n)
	return n, err
}

// A summer makes the sum of a package from its files in ascending order, as Hash1 of
// golang.org/x/mod/sumdb/dirhash defines it, in one pass.
type summer struct {
	file, all hash.Hash // file takes the content of the current file
}

func newSummer() *summer { return &summer{file: sha256.New(), all: sha256.New()} }

func (s *summer) endFile(name string) {
	fmt.Fprintf(s.all, "%x  %s\n", s.file.Sum(nil), name)
	s.file.Reset()
}

func (s *summer) sum() modproxy.Sum {
	return modproxy.NewSum([sha256.Size]byte(s.all.Sum(nil)))
}
