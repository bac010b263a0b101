// Package pack writes and verifies the one form of module packages: a canonical tar.gz.
//
//	b, err := pack.New(dir, pack.Limits{})
//	err = b.File("main.tf", false, r)
//	packed, err := b.Pack(w, "")
//
// One build of modproxy always packs the same tree to the same bytes. Another build may compress differently: the
// [modproxy.Sum] identifies the content independent of its bytes. This comment is the specification of the form.
//
// # The form
//
// A package has the files that a client would have on disk after it downloaded the same source itself. Every client unpacks
// it to the same tree:
//
//   - The root of the archive is the root of the package. The archive has everything that the next rules do not exclude.
//   - Files and directories called .git, at any level and in any case, are left out.
//   - The archive has regular files only. A symbolic or hard link is written as the file to which it leads. A link to a
//     directory is written as the files below that directory: the clients turn a link in a tar archive into an empty file.
//     A link to a directory that contains the link is written once, and left out of its own copies: if a/b leads to a, and a has
//     a file f, the package has a/f and a/b/f, and not a/b/b/f.
//     A link that leads to nothing in the package, such as any absolute path, is left out and noted.
//   - Directories have no entries: empty directories are lost. There is at least one file.
//   - A name is that of the source, byte by byte. Names that some file system treats as equal stay as they are, as on a client
//     on Linux, and are noted: names that differ only in case (Unicode simple folding), in Unicode composition,
//     in the text after a colon, or in dots and spaces at the end of a component.
//     [Limits.StrictNames] refuses them.
//   - A name that is not UTF-8 stays as it is and is noted, too: Terraform and OpenTofu unpack tar and zip archives to names of
//     the same bytes, as git does. macOS does not support such names, and the client fails there, with or without a package.
//     [Limits.StrictNames] refuses them.
//   - Entries are sorted by name, byte by byte.
//   - The mode is 0755 if the owner may execute the file at the source, else 0644. Other bits, owners, groups and
//     times are zero or empty. A header is USTAR, and PAX only if USTAR cannot hold the name.
//   - There is one gzip member, without name, comment, extra field or time.
//
// # Refused content
//
// Every content that a client can install itself is packed, except:
//
//   - A name that is absolute, has an empty component, "." or "..", begins with a drive letter or has a
//     backslash: some system unpacks it outside the intended directory.
//   - A name that NTFS or HFS+ opens as .git although it has another spelling: with a repository in a package, the
//     user's git runs the hooks of that repository.
//   - A name with control characters, or those of bidirectional text (U+202A to U+202E, U+2066 to U+2069): a
//     reviewer or a terminal sees another name, and a line break forges a line of the list from which a sum is computed.
//   - A component of more than 255 bytes, a name of more than [Limits.Path] bytes: not every client can create such
//     a file.
//   - A name that is both a file and a directory: no file system supports both.
//   - Links that lead back to themselves, or over more than 40 other links: following them would not end.
//   - Content that exceeds another limit: nothing is truncated. Memory grows with the number of entries.
//
// # Notes
//
// Notes are sentences about differences from the source, or between file systems: names that some file system treats as
// equal, names that are not UTF-8, names that an archive has more than once (the last entry counts), and links that are left
// out.
package pack

import (
	"cmp"
	"fmt"

	"github.com/modproxy/modproxy"
)

// Limits are the limits of one package. A zero field means its default.
type Limits struct {
	Entries     int   // added entries, and again packed entries after links are copied, with directories: 100,000
	Bytes       int64 // bytes of added content, and again of packed content after links are copied: 1 GiB
	Path        int   // bytes of one name: 1024
	Packed      int64 // bytes of the packed form: 512 MiB
	StrictNames bool  // refuses names that some file system treats as equal, or does not support
}

const (
	maxComponent = 255      // NAME_MAX of the file systems that clients unpack to
	maxTarget    = 4096     // PATH_MAX of Linux: the length of a symbolic link's target
	maxHops      = 40       // maximum number of symbolic links that Linux follows in one path
	maxNames     = 16 << 20 // bytes of all names and targets of one package; the name of a directory counts from the root
)

func (l Limits) withDefaults() Limits {
	l.Entries = cmp.Or(l.Entries, 100_000)
	l.Bytes = cmp.Or(l.Bytes, 1<<30)
	l.Path = cmp.Or(l.Path, 1024)
	l.Packed = cmp.Or(l.Packed, 512<<20)
	return l
}

// refuse returns the error for a package that violates the form.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: package: %w", modproxy.ErrInvalid, fmt.Errorf(format, args...))
}

// A tally counts entries and bytes against the limits.
type tally struct {
	Limits
	entries int
	bytes   int64
	names   int
}

// entry counts one entry, and target bytes of its link's target.
func (t *tally) entry(name string, target int) error {
	t.entries++
	t.names += len(name) + target
	switch {
	case len(name) > t.Path:
		return refuse("%.80q…: a name of %d bytes, more than the %d that are allowed", name, len(name), t.Path)
	case t.entries > t.Entries:
		return refuse("%q: more than the %d entries that are allowed (operator: fetch.max_files)", name, t.Entries)
	case t.names > maxNames:
		return refuse("%q: all names together are longer than the %d bytes that are allowed", name, maxNames)
	}
	return nil
}

// content counts n bytes of the named entry.
func (t *tally) content(name string, n int64) error {
	if n > t.Bytes-t.bytes {
		return refuse("%q: more content than the %d bytes that are allowed (operator: fetch.max_unpacked)", name, t.Bytes)
	}
	t.bytes += n
	return nil
}
