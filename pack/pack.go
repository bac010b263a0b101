// Package pack makes the one form that packages have here: a canonical tar.gz.
//
// # The form
//
// A package is what a client would have had on disk after fetching the same source itself, written so that every
// client unpacks it to the same tree:
//
//   - The root of the archive is the root of the package. Everything is in it but what the next rules name.
//   - Files and directories called .git, at any level and in any case, are left out.
//   - The archive has regular files only. A symbolic or hard link is written as the file it names, a link to a
//     directory as the files below that directory: the clients turn a link in a tar archive into an empty file.
//     A link to a directory that it is in itself is written once, and left out of the files that stand for it.
//     A link that names nothing in the package, including any absolute path, is left out and noted.
//   - Directories have no entries, so empty ones are not kept. There is at least one file.
//   - A name is the one at the source, byte by byte. Names that some file system takes for the same are kept,
//     as a client keeps them on Linux, and noted: names that differ only in case (Unicode simple folding), in
//     being composed, in what follows a colon, or in dots and spaces at the end of a component.
//     [Limits.StrictNames] refuses them.
//   - A name that is not UTF-8 is kept and noted, too: Terraform and OpenTofu unpack tar and zip archives to names of the same
//     bytes, as git does. macOS has no such names, and the client fails there, with a package or without.
//     [Limits.StrictNames] refuses them.
//   - Entries are sorted by name, byte by byte.
//   - The mode is 0755 if the owner may execute the file at the source, else 0644. Other bits, owners, groups and
//     times are zero or empty. A header is USTAR, and PAX only where USTAR cannot hold the name.
//   - There is one gzip member, without name, comment, extra field or time.
//
// One build of modproxy always packs the same tree to the same bytes. Another build may compress differently: the
// [modproxy.Sum] names the content whatever its bytes are.
//
// # What is refused
//
// What a client installs by itself is packed, except:
//
//   - A name that is absolute, has an empty component, "." or "..", begins with a drive letter or has a
//     backslash: some system unpacks it outside the directory that it is meant for.
//   - A name that NTFS or HFS+ takes for .git without its being spelled so: a package that brings a repository of
//     its own makes the user's git run its hooks.
//   - A name with control characters, or those of bidirectional text (U+202A to U+202E, U+2066 to U+2069): a
//     reviewer or a terminal sees another name, and a line break forges a line of the list that a sum is made of.
//   - A component of more than 255 bytes, a name of more than [Limits.Path] bytes: not every client can make such
//     a file.
//   - A name that is both a file and a directory: no file system has both.
//   - Links that lead back to themselves, or over more than 40 others: following them has no end.
//   - What exceeds another limit: nothing is cut short. Memory grows with the number of entries.
//
// # Notes
//
// Notes say in words what differs from the source or on some file systems: names that are the same for some file
// system, names that are not UTF-8, names that an archive has more than once, of which the last counts, and links that are left out.
package pack

import (
	"cmp"
	"fmt"

	"github.com/modproxy/modproxy"
)

// Limits bound one package. A zero field stands for its default.
type Limits struct {
	Entries     int   // that are added, and again that are packed once links are copied, with directories: 100,000
	Bytes       int64 // of the content that is added, and again that is packed once links are copied: 1 GiB
	Path        int   // bytes of one name: 1024
	Packed      int64 // bytes of the packed form: 512 MiB
	StrictNames bool  // refuses names that some file system takes for the same, or does not have
}

const (
	maxComponent = 255      // NAME_MAX of the file systems that clients unpack to
	maxTarget    = 4096     // PATH_MAX of Linux: the length of a symbolic link's target
	maxHops      = 40       // how many symbolic links Linux follows in one path
	maxNames     = 16 << 20 // bytes of all names and targets of one package, each directory's from the root
)

func (l Limits) withDefaults() Limits {
	l.Entries = cmp.Or(l.Entries, 100_000)
	l.Bytes = cmp.Or(l.Bytes, 1<<30)
	l.Path = cmp.Or(l.Path, 1024)
	l.Packed = cmp.Or(l.Packed, 512<<20)
	return l
}

// refuse returns the error for a package that cannot have this form.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: package: %w", modproxy.ErrInvalid, fmt.Errorf(format, args...))
}

// A tally counts what limits bound.
type tally struct {
	Limits
	entries int
	bytes   int64
	names   int
}

// entry counts one more entry, and its link's target of so many bytes.
func (t *tally) entry(name string, target int) error {
	t.entries++
	t.names += len(name) + target
	switch {
	case len(name) > t.Path:
		return refuse("%.80q…: a name of %d bytes, more than the %d that are allowed", name, len(name), t.Path)
	case t.entries > t.Entries:
		return refuse("%q: more than the %d entries that are allowed (operator: fetch.max_files)", name, t.Entries)
	case t.names > maxNames:
		return refuse("%q: names are longer together than the %d bytes that are allowed", name, maxNames)
	}
	return nil
}

// content counts n more bytes of the named entry.
func (t *tally) content(name string, n int64) error {
	if n > t.Bytes-t.bytes {
		return refuse("%q: more content than the %d bytes that are allowed (operator: fetch.max_unpacked)", name, t.Bytes)
	}
	t.bytes += n
	return nil
}
