package pack

import (
	"path"
	"strings"
)

type kind uint8

const (
	directory kind = iota
	file
	symlink
	hardlink
)

func (k kind) String() string {
	return [...]string{"a directory", "a file", "a symbolic link", "a hard link"}[k]
}

// A node is one entry of the tree.
type node struct {
	kind   kind
	name   string // one component; empty for the root
	parent *node  // nil for the root

	children map[string]*node // for a directory
	twice    bool             // replaced another entry
	busy     bool             // for a link that is being followed, or whose directory is being listed

	executable   bool  // for a file
	offset, size int64 // of a file's content

	target  string // for a link
	to      *node  // the entry to which a link leads, once known
	nothing string // why a link leads to nothing, once known
	hops    int    // number of links followed on the way
}

// path returns n's name from the root of the tree.
func (n *node) path() string {
	if n.parent == nil {
		return "."
	}
	return path.Join(n.parent.path(), n.name)
}

// insert puts n at name, which was checked and counted. It creates the directories above name, and counts each in t.
func (root *node) insert(name string, n *node, t *tally) error {
	dir := root
	for above := range newDirs("", name) {
		part := path.Base(above)
		have := dir.children[part]
		if have == nil {
			if err := t.entry(above, 0); err != nil {
				return err
			}
			have = &node{kind: directory}
			dir.put(part, have)
		}
		if have.kind != directory {
			return refuse("%q: is %s and also a directory", above, have.kind)
		}
		dir = have
	}
	return dir.put(path.Base(name), n)
}

// put makes n a child of dir. It leaves an existing directory, and replaces another entry.
func (dir *node) put(name string, n *node) error {
	have := dir.children[name]
	switch {
	case have == nil:
		if dir.children == nil {
			dir.children = make(map[string]*node)
		}
	case have.kind == directory && n.kind == directory:
		return nil
	case have.kind == directory || n.kind == directory:
		return refuse("%q: is %s and also a directory", have.path(), max(have.kind, n.kind))
	default:
		n.twice = true
	}
	n.name, n.parent = name, dir
	dir.children[name] = n
	return nil
}

// resolve returns the file or directory to which the link n leads. If neither exists, it returns nil and sets n.nothing. It
// stores the result in n, so that resolving all links of a tree costs no more than the length of their targets.
func (root *node) resolve(n *node, depth int) (*node, error) {
	if n.to == nil && n.nothing == "" {
		if n.busy {
			return nil, refuse("%q: is a link that leads back to itself", n.path())
		}
		n.hops = depth + 1
		if depth < maxHops {
			var err error
			n.busy, n.hops = true, 1
			n.to, n.nothing, err = root.follow(n, depth)
			n.busy = false
			if err != nil {
				return nil, err
			}
		}
	}
	if n.hops > maxHops {
		return nil, refuse("%q: is a link through more than %d other links", n.path(), maxHops)
	}
	return n.to, nil
}

// follow returns the entry to which the link n leads, or why it leads to nothing. It counts the links on the way in n.hops.
func (root *node) follow(n *node, depth int) (to *node, nothing string, err error) {
	at := n.parent
	if n.kind == hardlink {
		at = root
	}
	if strings.HasPrefix(n.target, "/") {
		return nil, "which is absolute", nil
	}
	rest, more := n.target, true
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if at.kind != directory {
			return nil, "whose path leads through a file", nil
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if at = at.parent; at == nil {
				return nil, "which leaves the package", nil
			}
			continue
		}
		next := at.children[part]
		switch {
		case next == nil && isGit(part):
			return nil, "and packages leave .git out", nil
		case next == nil:
			return nil, "which does not exist", nil
		case next.kind == symlink && n.kind == hardlink && rest == "":
			return nil, "which is a symbolic link", nil
		case next.kind == symlink || next.kind == hardlink:
			to, err := root.resolve(next, depth+1)
			if err != nil {
				return nil, "", err
			}
			if to == nil {
				return nil, "which is or leads through such a link", nil
			}
			n.hops += next.hops
			next = to
		}
		at = next
	}
	if n.kind == hardlink && at.kind != file {
		return nil, "which is a directory", nil
	}
	return at, "", nil
}
