// Package archive unpacks archives from untrusted servers into a [pack.Builder].
//
// Call [FormatOf] or [Sniff] for the format, then [Unpack]:
//
//	err := archive.Unpack(ctx, file, size, archive.FormatOf(u.Path, u.Query().Get("archive")), builder)
//
// Invariants: an archive is read as by the decompressors of go-getter. The entries that a client unpacks are added to the Builder
// in the order of the archive; of two entries with one name, the last one counts, as for clients. Bytes that belong to no entry
// and that clients ignore are ignored: after the end of a tar archive or a zip file, before a zip file, or between its entries.
// Nothing is unpacked to disk. An archive that exceeds a limit is an error, never truncated. These are also refused:
//
//   - content that is incomplete or contradicts its checksum or length: the damage would become part of the version;
//   - entries of a zip file that share bytes: a small file could expand without end;
//   - a zip file whose records about an entry, or about the number of entries, contradict each other, and a global tar header
//     that sets path, linkpath or size, which some programs apply to every entry: two programs could see two different files,
//     and the reviewed files could differ from the installed ones. Other global headers, such as those of git archive, and the
//     extended headers of a single entry are accepted;
//   - encrypted content, sparse files, devices, named pipes, and directories and links with content.
//
// Package pack decides which files become part of the package, and how links are treated. The functions are safe for concurrent
// use with different files and Builders.
package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

// A Format is the format of an archive. The zero value is not a format.
type Format string

// The formats that both clients unpack.
const (
	Zip      Format = "zip"
	TarGzip  Format = "tar.gz"
	TarBzip2 Format = "tar.bz2"
	TarXz    Format = "tar.xz"
)

// formats has the names of go-getter's decompressors for directories. No name ends in a dot and another name.
var formats = map[string]Format{
	"zip": Zip, "tar.gz": TarGzip, "tgz": TarGzip, "tar.bz2": TarBzip2, "tar.tbz2": TarBzip2, "tbz2": TarBzip2,
	"tar.xz": TarXz, "txz": TarXz,
}

// FormatOf returns the format of an archive by the clients' rule (go-getter's client.go): the query's argument archive,
// or else the suffix of the URL's path. Case is significant. The result is empty if the URL does not name an archive,
// for example if archive is "false".
func FormatOf(path, archive string) Format {
	if archive != "" {
		return formats[archive]
	}
	for name, f := range formats {
		if strings.HasSuffix(path, "."+name) {
			return f // tar.tbz2 and tbz2 are the same format
		}
	}
	return ""
}

// magics has the first bytes of archives.
var magics = map[string]Format{"PK\x03\x04": Zip, "\x1f\x8b": TarGzip, "BZh": TarBzip2, xzMagic: TarXz}

// Sniff returns the format of an archive by its first bytes, as OpenTofu does for a package from the registry itself
// (internal/registry/package_extract.go). Errors: [modproxy.ErrInvalid] if the file is not an archive; [modproxy.ErrUnavailable] if f
// cannot be read.
func Sniff(f io.ReaderAt) (Format, error) {
	head := make([]byte, len(xzMagic))
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("%w: archive: read: %w", modproxy.ErrUnavailable, err)
	}
	for magic, format := range magics {
		if strings.HasPrefix(string(head[:n]), magic) {
			return format, nil
		}
	}
	if (&input{f: f}).isPage() {
		return "", refuse("an HTML page instead of an archive: the address may want a login, or be that of a page")
	}
	return "", refuse("neither a zip archive nor a tar archive compressed by gzip, bzip2 or xz")
}

// refuse returns the error for a refused archive.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: archive: %w", modproxy.ErrInvalid, fmt.Errorf(format, args...))
}

// Unpack reads the archive in the first size bytes of f into b, within b's limits. The archive may expand to 1 MiB, and 1 KiB for
// each allowed entry, more than the limit for the content: this is for headers. It may also not expand to more than a hundred
// times its size, or 64 MiB if that is more.
//
// Errors: [modproxy.ErrInvalid] for a refused archive, with the name of the faulty entry if there is one, and for an empty
// format; [modproxy.ErrUnavailable] if f or the builder's file fails, together with the error of the file; the context's own error
// after its end.
func Unpack(ctx context.Context, f io.ReaderAt, size int64, format Format, b *pack.Builder) error {
	if size == 0 {
		return refuse("it is empty")
	}
	in := &input{ctx: ctx, f: f, max: b.Limits().Bytes + room + int64(b.Limits().Entries)*roomForEntry}
	if size <= in.max/maxRatio {
		in.max = min(in.max, max(minExpanded, size*maxRatio))
	}
	unpack := unpackTar
	if format == Zip {
		unpack = unpackZip
	}
	err := unpack(in, size, format, b)
	switch {
	case err == nil:
		return nil
	case in.err != nil:
		return in.err
	case errors.Is(err, modproxy.ErrUnavailable):
		return err
	case in.isPage():
		return refuse("an HTML page instead of a %s archive: the address may want a login, or be that of a page", format)
	case errors.Is(err, modproxy.ErrInvalid):
		return err
	}
	return refuse("%s: %w", format, err) // the decoder's own error
}

// isPage reports whether the input begins like an HTML page.
func (in *input) isPage() bool {
	head := make([]byte, 512)
	n, err := in.f.ReadAt(head, 0)
	return (err == nil || err == io.EOF) && IsPage(head[:n])
}

// IsPage reports whether a file with this beginning is an HTML page, such as one that asks for a login. Unpack and Sniff name it in
// their errors; other downloads, such as zip archives of providers, use IsPage for the same purpose.
func IsPage(head []byte) bool {
	return strings.HasPrefix(http.DetectContentType(head), "text/html")
}

// cleanName returns the name under which a client unpacks an entry, relative to the target directory. It is empty for
// that directory itself. A name with ".." is returned unchanged, and package pack refuses it.
func cleanName(name string) string {
	if slices.Contains(strings.Split(name, "/"), "..") {
		return name
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

const (
	room         = 1 << 20 // for headers: an archive may expand to this in addition to the limit of the package
	roomForEntry = 1 << 10
	maxRatio     = 100       // bytes to which one byte of an archive expands
	minExpanded  = 64 << 20  // bytes to which the smallest archive may expand
	maxHeader    = 256 << 10 // bytes of the tar blocks that describe one entry
	maxTarget    = 4096      // bytes of a symbolic link's target
)

// An input is the downloaded archive. It counts the bytes to which the archive expands. It stores the first error that
// stopped it, because decoders may report that error as damage of the archive.
type input struct {
	ctx    context.Context
	f      io.ReaderAt
	n, max int64 // bytes to which it expands
	err    error
}

func (in *input) ReadAt(p []byte, off int64) (int, error) {
	if err := in.expand(0); err != nil {
		return 0, err
	}
	n, err := in.f.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // f is at least as long as the given size
	}
	return n, in.stop(fmt.Errorf("%w: archive: read: %w", modproxy.ErrUnavailable, err))
}

// expand counts n more bytes.
func (in *input) expand(n int) error {
	if in.n += int64(n); in.n > in.max {
		return in.stop(refuse("expands to more than the %d bytes that are allowed for its size", in.max))
	}
	if in.ctx.Err() != nil {
		return in.stop(fmt.Errorf("archive: %w", in.ctx.Err()))
	}
	return in.err
}

func (in *input) stop(err error) error {
	in.err = cmp.Or(in.err, err)
	return in.err
}
