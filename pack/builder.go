package pack

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy"
)

// A Builder collects the tree of one package. It is not safe for concurrent use.
//
// An entry that violates the form returns [modproxy.ErrInvalid]. A failure of the temporary file returns
// [modproxy.ErrUnavailable]. An error of the caller's reader or writer is wrapped. After an error while adding an entry, all
// later calls return the same error.
type Builder struct {
	root  node
	tally tally
	err   error

	file    *os.File // the content of all files, one after the other
	content *bufio.Writer
	size    int64 // bytes written to content
}

// New returns a Builder for one package. The caller must close it. One [UnnamedFile] in dir holds the content: no file
// remains in dir, even after a crash, and the name of an entry never becomes the name of a file.
func New(dir string, l Limits) (*Builder, error) {
	f, err := UnnamedFile(dir)
	if err != nil {
		return nil, err
	}
	b := &Builder{tally: tally{Limits: l.withDefaults()}, file: f}
	// The file's own ReadFrom would allocate a buffer for every entry.
	b.content = bufio.NewWriterSize(struct{ io.Writer }{f}, bufferSize)
	return b, nil
}

// Limits returns the limits of the package, with defaults for zero fields.
func (b *Builder) Limits() Limits { return b.tally.Limits }

// UnnamedFile opens a file without a name in dir. The operating system removes it when it is closed. The error is
// [modproxy.ErrUnavailable].
func UnnamedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "modproxy-*.tmp")
	if err != nil {
		return nil, unavailable(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, unavailable(errors.Join(err, f.Close()))
	}
	return f, nil
}

func unavailable(err error) error {
	return fmt.Errorf("%w: package: temporary file: %w", modproxy.ErrUnavailable, err)
}

// Close frees the disk space. It may be called twice.
func (b *Builder) Close() error {
	if err := b.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return unavailable(err)
	}
	return nil
}

// File adds a regular file with the content of r. The name is relative to the root, slash-separated and clean. If the form leaves
// the file out, such as one below .git, File returns nil without reading r. Otherwise it reads r to its end. If the name was added
// before, the last call counts. After an error of File, Link, Hardlink or Dir, all further calls return this error, also Pack.
func (b *Builder) File(name string, executable bool, r io.Reader) error {
	return b.add(name, &node{kind: file, executable: executable}, r)
}

// Link adds a symbolic link. The target is relative to the link's directory. It may be added later, or never.
func (b *Builder) Link(name, target string) error {
	return b.add(name, &node{kind: symlink, target: target}, nil)
}

// Hardlink adds a hard link. The target is a file, relative to the root, and may be added later.
func (b *Builder) Hardlink(name, target string) error {
	return b.add(name, &node{kind: hardlink, target: target}, nil)
}

// Dir adds a directory. Parents need not be added. Call Dir for an empty directory that a link or the root of the package may
// name.
func (b *Builder) Dir(name string) error {
	return b.add(name, &node{kind: directory}, nil)
}

func (b *Builder) add(name string, n *node, r io.Reader) (err error) {
	if b.err != nil {
		return b.err
	}
	defer func() { b.err = err }()
	if err := cmp.Or(b.tally.entry(name, len(n.target)), CheckName(name)); err != nil {
		return err
	}
	isLink := n.kind == symlink || n.kind == hardlink
	switch {
	case leftOut(name):
		return nil
	case isLink && n.target == "":
		return refuse("%q: is %s to nothing", name, n.kind)
	case len(n.target) > maxTarget:
		return refuse("%q: is %s to a target of %d bytes, more than the %d that are allowed", name, n.kind, len(n.target), maxTarget)
	}
	if err := b.root.insert(name, n, &b.tally); err != nil {
		return err
	}
	if n.kind != file {
		return nil
	}
	in := &source{r: r, max: b.tally.Bytes - b.tally.bytes}
	n.offset = b.size
	n.size, err = b.content.ReadFrom(in)
	b.size += n.size
	switch errLimit := b.tally.content(name, n.size); {
	case errLimit != nil:
		return errLimit
	case in.err != nil:
		return fmt.Errorf("package: %q: %w", name, in.err)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// A source is a reader that fails after more than max bytes. It stores its error, because readers above it may change it.
type source struct {
	r      io.Reader
	n, max int64
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	s.n += int64(n)
	if s.n > s.max {
		err = refuse("more than the %d bytes that are allowed", s.max)
	}
	if err != io.EOF {
		s.err = err
	}
	return n, err
}

const (
	mode           = 0o644
	modeExecutable = 0o755
	level          = 6 // of gzip
	bufferSize     = 128 << 10
)

// HasDir reports whether the package that Pack writes for root has a file in the directory dir or below it. Directories that links lead to
// count. An empty dir is the root of the package. Errors are those of Pack about the content.
func (b *Builder) HasDir(root, dir string) (bool, error) {
	if b.err != nil {
		return false, b.err
	}
	files, _, err := b.root.files(root, b.tally.Limits)
	if dir != "" {
		dir += "/"
	}
	return slices.ContainsFunc(files, func(f packedFile) bool { return strings.HasPrefix(f.name, dir) }), err
}

// Packed describes the package that [Builder.Pack] wrote.
type Packed struct {
	Sum   modproxy.Sum // identifies the content
	Size  int64        // written bytes
	Notes string       // see the package comment
}

// Pack writes the package to w. Output before an error is not a package.
//
// If root is empty, the package is the whole tree. Otherwise root is a path whose components are patterns of [path.Match], as
// in a subdirectory like "*". It must match exactly one directory, which is not a link, or the error is [modproxy.ErrInvalid]. That
// directory becomes the root of the package. Pack checks and packs only its content. Links may lead to entries beside it, as for a client that
// unpacks everything before it looks for the subdirectory.
//
// Pack may be called again, also after an error, with the same root or another.
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

// Package packs the package into an [UnnamedFile] in dir, and opens that file. See Pack. It sets the Digest, Sum, Size, Time and Notes
// of the result; the caller sets Source and Subdir. When ctx ends, it returns the cause.
func (b *Builder) Package(ctx context.Context, dir, root string) (*modproxy.Package, error) {
	file, err := UnnamedFile(dir)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	packed, err := b.Pack(&untilDone{io.MultiWriter(file, hash), ctx}, root)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	p := &modproxy.Package{Sum: packed.Sum, Size: packed.Size, Time: time.Now(), Notes: packed.Notes}
	hash.Sum(p.Digest[:0])
	p.Body = modproxy.NewBody(file, p.Digest)
	return p, nil
}

// untilDone is a writer that fails after its context ended.
type untilDone struct {
	io.Writer
	ctx context.Context
}

func (u *untilDone) Write(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Writer.Write(p)
}

func (b *Builder) write(w io.Writer, files []packedFile) (modproxy.Sum, error) {
	zw, _ := gzip.NewWriterLevel(w, level) // it fails for an invalid level only
	zw.ModTime = time.Unix(0, 0)           // four zero bytes, unlike the zero Time
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

// A summer computes the sum of a package from its files in ascending order, as Hash1 of x/mod/sumdb/dirhash does.
type summer struct {
	file, all hash.Hash // file receives the content of the current file
}

func newSummer() *summer { return &summer{file: sha256.New(), all: sha256.New()} }

func (s *summer) endFile(name string) {
	fmt.Fprintf(s.all, "%x  %s\n", s.file.Sum(nil), name)
	s.file.Reset()
}

func (s *summer) sum() modproxy.Sum { return modproxy.NewSum([sha256.Size]byte(s.all.Sum(nil))) }
