package pack

import "io"

// A Builder collects the tree of one package. It is not safe for concurrent use.
//
// Whatever refuses the package is [modproxy.ErrInvalid], and names the entry; trouble
// with the spool is [modproxy.ErrUnavailable]; the error of a reader or writer that
// the caller passed in is wrapped and keeps its identity. After an error of a
// method that adds, every later call returns that error.
type Builder struct {
	root  node
	tally tally
	spool *spool
	err   error
}

// New makes a Builder for one package. The content is kept in one temporary file in
// dir, which is unlinked at once: nothing is left behind whatever happens, and no
// name of an entry ever becomes the name of a file.
func New(dir string, l Limits) (*Builder, error) {
	s, err := newSpool(dir)
	if err != nil {
		return nil, err
	}
	return &Builder{tally: tally{Limits: l.withDefaults()}, spool: s}, nil
}

// Close gives the spool's disk space back. It may be called twice.
func (b *Builder) Close() error { return b.spool.close() }

// File adds a regular file with the content of r, which is read to its end. The name
// is relative to the root, slash-separated and clean.
//
// What packages leave out is not added, and r is not read for it.
func (b *Builder) File(name string, executable bool, r io.Reader) error {
	return b.add(name, &node{kind: file, executable: executable}, r)
}

// Link adds a symbolic link. The target is relative to the directory that the link
// is in, and what it names may be added later, or never: see the package comment.
func (b *Builder) Link(name, target string) error {
	return b.add(name, &node{kind: symlink, target: target}, nil)
}

// Hardlink adds a hard link. The target is relative to the root, as in a tar archive,
// and what it names, a file, may be added later.
func (b *Builder) Hardlink(name, target string) error {
	return b.add(name, &node{kind: hardlink, target: target}, nil)
}

// Dir adds a directory. Directories are in no package, and those that something is
// in need not be added; but a link or the root of the package may name an empty one.
func (b *Builder) Dir(name string) error {
	return b.add(name, &node{kind: directory}, nil)
}

func (b *Builder) add(name string, n *node, r io.Reader) error {
	if b.err != nil {
		return b.err
	}
	b.err = b.tryAdd(name, n, r)
	return b.err
}

func (b *Builder) tryAdd(name string, n *node, r io.Reader) error {
	if err := b.tally.entry(name, len(n.target)); err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	if leftOut(name) {
		return nil
	}
	if n.kind == symlink || n.kind == hardlink {
		if err := checkTarget(name, n); err != nil {
			return err
		}
	}
	if err := b.root.insert(name, n, &b.tally); err != nil {
		return err
	}
	if n.kind != file {
		return nil
	}
	var err error
	n.off, n.size, err = b.spool.add(name, r, &b.tally)
	return err
}

func checkTarget(name string, n *node) error {
	switch target := n.target; {
	case target == "":
		return refuse("%q: is %s to nothing", name, n.kind)
	case len(target) > maxTarget:
		return refuse("%q: is %s to a target of %d bytes, more than the %d that are allowed", name, n.kind, len(target), maxTarget)
	}
	return nil
}
