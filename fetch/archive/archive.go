// Package archive reads one archive that an untrusted server sent, and adds its entries to a [pack.Builder].
//
// An archive is read as the decompressors of go-getter read it: what a client unpacks becomes part of the
// package, in its order, and what a client ignores is ignored: bytes behind the end of a tar archive or a zip
// file, before a zip file, or between its entries. Nothing is unpacked to disk. A limit that is hit is an
// error, never a truncation. Refused besides is
//
//   - content whose checksum or length differs from what the archive says, or that
//     is cut short: damage would become part of the version for ever;
//   - entries of a zip file that share bytes: a small file expands without end;
//   - a zip file whose records contradict each other, and tar headers that apply to other entries: two programs
//     see two files, and what was reviewed is not what is installed;
//   - encrypted content, sparse files, devices, named pipes, and directories and links with content.
//
// Package pack decides which files become part of the package, and how links are
// treated. An archive within an archive is just a file.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

// A Format is how an archive is written. The zero value is no format.
type Format string

// The formats that both clients unpack.
const (
	Zip      Format = "zip"
	TarGzip  Format = "tar.gz"
	TarBzip2 Format = "tar.bz2"
	TarXz    Format = "tar.xz"
)

// formats has the names of go-getter's decompressors (decompress.go), as far as they make
// directories. No name ends in a dot and another one.
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

// FormatOf returns the format of an archive by the clients' rule (go-getter's client.go): the argument archive
// of the query, where there is one, else the suffix of the URL's path. Case counts. It returns false for what
// is no archive to a client, for example when archive is "false".
func FormatOf(path, archive string) (Format, bool) {
	if archive != "" {
		f, ok := formats[archive]
		return f, ok
	}
	for name, f := range formats {
		if strings.HasSuffix(path, "."+name) {
			return f, true // tar.tbz2 and tbz2 are one format
		}
	}
	return "", false
}

// refuse returns the error for an archive that is not read.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: archive: %w", modproxy.ErrInvalid, fmt.Errorf(format, args...))
}

// Unpack reads the archive in the first size bytes of f into b. The limits of the package
// bound the archive as well, with some room for its headers.
//
// Errors: [modproxy.ErrInvalid] for an archive that is refused, naming the entry if one
// is at fault; [modproxy.ErrUnavailable] when f or the builder's file cannot be read or
// written; the context's own when it ended.
func Unpack(ctx context.Context, f io.ReaderAt, size int64, format Format, b *pack.Builder) error {
	if size == 0 {
		return refuse("it is empty")
	}
	in := &input{ctx: ctx, f: f}
	out := &output{ctx: ctx, max: b.Limits().Bytes + room + int64(b.Limits().Entries)*roomForEntry}
	if size <= out.max/maxRatio {
		out.max = min(out.max, max(minExpanded, size*maxRatio))
	}
	var err error
	switch format {
	case Zip:
		err = unpackZip(in, size, out, b)
	case TarGzip, TarBzip2, TarXz:
		err = unpackTar(in, size, format, out, b)
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

// cleanName returns the name under which a client unpacks an entry: relative to the
// directory that it unpacks to, without dots and double slashes. A name with ".."
// stays as it is, for package pack to refuse. The name of the root is empty.
func cleanName(name string) string {
	if slices.Contains(strings.Split(name, "/"), "..") {
		return name
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
