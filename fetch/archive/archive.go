// Package archive reads one archive that a stranger's server sent, and hands what is
// in it to a [pack.Builder].
//
// An archive is read as the clients read it (the decompressors of go-getter): what a
// client unpacks becomes part of the package, in its order, and what it takes no
// notice of is ignored: what follows the end of a tar archive or a zip file, what comes
// before a zip file or between its entries. Nothing is unpacked to disk, every limit
// counts what was actually read, and a limit that is hit is an error, never a
// truncation. Refused all the same are
//
//   - content whose checksum or length is not the one that the archive says, or that
//     is cut short: what was damaged on its way would be what the version is for ever;
//   - entries of a zip file that share bytes: a small file expands without end;
//   - headers of one entry that contradict each other, and headers that speak for
//     other entries: two programs see two files, so that what was looked at is not what
//     is installed;
//   - encrypted content, sparse files, devices, named pipes, and directories and links
//     with content: there is nothing that they could become.
//
// Which files become part of the package, and how links are treated, is package
// pack's to say. What is called .git is left out there: the archive of a work tree is
// not refused for having it. An archive within an archive is just a file.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

// Format is how an archive is written. The zero value is none that can be read.
type Format int

// The formats that both clients unpack.
const (
	_ Format = iota
	Zip
	TarGzip
	TarBzip2
	TarXz
)

func (f Format) String() string {
	switch f {
	case Zip:
		return "zip"
	case TarGzip:
		return "tar.gz"
	case TarBzip2:
		return "tar.bz2"
	case TarXz:
		return "tar.xz"
	}
	return fmt.Sprintf("Format(%d)", int(f))
}

// The names of go-getter's decompressors (decompress.go), as far as they make
// directories.
var formats = map[string]Format{
	"zip":      Zip,
	"tar.gz":   TarGzip,
	"tgz":      TarGzip,
	"tar.bz2":  TarBzip2,
	"tar.tbz2": TarBzip2,
	"tbz2":     TarBzip2,
	"tar.xz":   TarXz,
	"txz":      TarXz,
}

// FormatOf tells the format of an archive as the clients do (go-getter's client.go):
// by the argument archive of the query, where there is one, else by the suffix of
// the URL's path. Case counts. It is false for what a client takes for no archive,
// for example when archive is "false".
func FormatOf(path, archive string) (Format, bool) {
	if archive != "" {
		f, ok := formats[archive]
		return f, ok
	}
	for name, f := range formats {
		if strings.HasSuffix(path, "."+name) {
			return f, true // no name of another format ends in this one
		}
	}
	return 0, false
}

// Limits bound one archive. A zero field stands for its default. What becomes part of
// the package is bounded by [pack.Limits] as well.
type Limits struct {
	// Entries bounds the entries, of whatever type: 100,000.
	Entries int
	// Bytes bounds what the archive expands to, tar headers counted: 2 GiB.
	Bytes int64
	// Ratio bounds how many bytes one byte of the archive expands to: 100. An
	// archive that expands to no more than 64 MiB is not held to it.
	Ratio int64
}

const (
	// unrationed is what the smallest of archives may expand to.
	unrationed = 64 << 20
	// maxHeader bounds the tar blocks that describe one entry.
	maxHeader = 256 << 10
	// maxTarget bounds the length of a symbolic link's target.
	maxTarget = 4096
)

func (l Limits) withDefaults() Limits {
	if l.Entries == 0 {
		l.Entries = 100_000
	}
	if l.Bytes == 0 {
		l.Bytes = 2 << 30
	}
	if l.Ratio == 0 {
		l.Ratio = 100
	}
	return l
}

// refuse is the error for an archive that is not read.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: archive: %w", modproxy.ErrInvalid, fmt.Errorf(format, args...))
}

// Unpack reads the archive that f holds in its first size bytes into b. The archive
// is read from its beginning to its end, whatever its entries are.
//
// Errors: [modproxy.ErrInvalid] for an archive that is refused, naming the entry where
// it is one entry's fault; [modproxy.ErrUnavailable] when f or the builder's spool
// cannot be read or written; the context's own when it ended.
func Unpack(ctx context.Context, f io.ReaderAt, size int64, format Format, b *pack.Builder, l Limits) error {
	l = l.withDefaults()
	if size == 0 {
		return refuse("it is empty")
	}
	in := &input{ctx: ctx, f: f}
	out := &output{ctx: ctx, max: l.Bytes}
	if size <= l.Bytes/l.Ratio {
		out.max = min(l.Bytes, max(unrationed, size*l.Ratio))
	}
	var err error
	switch format {
	case Zip:
		err = unpackZip(in, size, out, b, l)
	case TarGzip, TarBzip2, TarXz:
		err = unpackTar(in, size, format, out, b, l)
	default:
		return refuse("no archive format")
	}
	switch {
	case err == nil:
		return nil
	case in.err != nil:
		return in.err
	case out.err != nil:
		return out.err
	case errors.Is(err, modproxy.ErrInvalid), errors.Is(err, modproxy.ErrUnavailable):
		return err
	}
	return refuse("%s: %w", format, err) // a decoder's own
}

// cleanName is the name under which a client unpacks an entry: relative to where it
// unpacks to, whatever dots and slashes there are. A name with ".." stays as it is, for
// package pack to refuse. It is empty for the root.
func cleanName(name string) string {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return name
		}
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
