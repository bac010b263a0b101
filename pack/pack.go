// Package pack makes the one form a package has here.
package pack

import (
	"errors"
	"io"

	"github.com/modproxy/modproxy"
)

// Limits bound one package. A zero field stands for its default.
type Limits struct {
	Entries int   // files, links and directories; default 100,000
	Bytes   int64 // content, copies made for links counted; default 1 GiB
	Path    int   // bytes of one name; default 1024
	Packed  int64 // bytes of the packed form; default 512 MiB
}

// A Builder collects the tree of one package. It is not safe for concurrent use.
//
// Errors that refuse the package are [modproxy.ErrInvalid]; trouble with our own
// disk is [modproxy.ErrUnavailable]; an error of a reader or writer that the
// caller passed in is wrapped and keeps its identity.
type Builder struct{}

var errSkeleton = errors.New("not built yet")

// New makes a Builder that spools contents into one unlinked temporary file in dir.
func New(dir string, l Limits) (*Builder, error) { return nil, errSkeleton }

// File adds a regular file; name is slash-separated, clean, relative to the root.
func (b *Builder) File(name string, executable bool, r io.Reader) error { return errSkeleton }

// Link adds a symbolic link; target is relative to the link's directory.
func (b *Builder) Link(name, target string) error { return errSkeleton }

// Hardlink adds a hard link; target is relative to the root.
func (b *Builder) Hardlink(name, target string) error { return errSkeleton }

// Dir adds a directory, which links and root patterns may name. Parents of what is
// added need no Dir, and a package has no directory entries.
func (b *Builder) Dir(name string) error { return errSkeleton }

// Pack writes the package to w: the whole tree, or the one directory that the
// slash-separated glob root matches. It returns the content's sum and the number
// of bytes written.
func (b *Builder) Pack(w io.Writer, root string) (modproxy.Sum, int64, error) {
	return "", 0, errSkeleton
}

// Close releases the spool.
func (b *Builder) Close() error { return errSkeleton }

// Verify reads a packed package and returns its content's sum; what is not in the
// form that this package makes is [modproxy.ErrInvalid].
func Verify(r io.Reader, l Limits) (modproxy.Sum, error) { return "", errSkeleton }
