package pack

import (
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

// A node is one entry of the tree that is packed.
type node struct {
	kind   kind
	name   string // one component; empty for the root
	parent *node  // nil for the root

	kids  map[string]*node // of a directory
	twice bool             // another one was there
	busy  bool             // a link that is being followed, or whose directory is being listed

	executable bool // file
	off, size  int64

	target  string // link
	to      *node  // what it names, once that is known
	nothing string // why it names nothing, once that is known
	hops    int    // how many links were followed for it
}

// path is n's name from the root of the tree.
func (n *node) path() string {
	if n.parent == nil {
		return "."
	}
	var parts []string
	for ; n.parent != nil; n = n.parent {
		parts = append(parts, n.name)
	}
	var b strings.Builder
	for i := len(parts) - 1; i > 0; i-- {
		b.WriteString(parts[i])
		b.WriteByte('/')
	}
	b.WriteString(parts[0])
	return b.String()
}

// insert puts n at name, which has been checked and counted, and makes the
// directories above, each counted by t. A directory may be inserted many times.
func (root *node) insert(name string, n *node, t *tally) error {
	dir := root
	for begin := 0; ; {
		part, _, more := strings.Cut(name[begin:], "/")
		have := dir.kids[part]
		if !more {
			n.name, n.parent = part, dir
			return dir.put(n, have)
		}
		end := begin + len(part)
		if have == nil {
			if err := t.entry(name[:end], 0); err != nil {
				return err
			}
			have = &node{kind: directory, name: part, parent: dir}
			dir.put(have, nil)
		}
		if have.kind != directory {
			return refuse("%q: is %s, and a directory as well", have.path(), have.kind)
		}
		dir, begin = have, end+1
	}
}

func (dir *node) put(n, have *node) error {
	switch {
	case have == nil:
		if dir.kids == nil {
			dir.kids = make(map[string]*node)
		}
		dir.kids[n.name] = n
	case have.kind == directory && n.kind == directory:
	case have.kind == directory || n.kind == directory:
		other := have.kind
		if other == directory {
			other = n.kind
		}
		return refuse("%q: is %s, and a directory as well", have.path(), other)
	default:
		n.twice = true
		dir.kids[n.name] = n
	}
	return nil
}

// resolve finds the file or directory that the link n names; nil when it names
// nothing in the tree, and n.nothing says why. What it found is kept in n, so that all
// links of a tree cost no more than the length of their targets.
func (root *node) resolve(n *node, depth int) (*node, error) {
	if n.to != nil || n.nothing != "" {
		return n.to, nil
	}
	if n.busy {
		return nil, refuse("%q: is a link that leads back to itself", n.path())
	}
	if depth >= maxHops {
		return nil, n.tooManyHops()
	}
	n.busy = true
	defer func() { n.busy = false }()
	n.hops = 1
	if err := root.follow(n, depth); err != nil {
		return nil, err
	}
	if n.hops > maxHops {
		return nil, n.tooManyHops()
	}
	return n.to, nil
}

func (n *node) tooManyHops() error {
	return refuse("%q: is a link over more than %d other links", n.path(), maxHops)
}

// follow sets n.to, or n.nothing.
func (root *node) follow(n *node, depth int) error {
	at := n.parent
	if n.kind == hardlink {
		at = root
	}
	if strings.HasPrefix(n.target, "/") {
		n.nothing = "which is absolute"
		return nil
	}
	rest, more := n.target, true
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if at.kind != directory {
			n.nothing = "on whose way is a file"
			return nil
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if at = at.parent; at == nil {
				n.nothing = "which leaves the package"
				return nil
			}
			continue
		}
		next := at.kids[part]
		switch {
		case next == nil && isGit(part):
			n.nothing = "and packages leave .git out"
			return nil
		case next == nil:
			n.nothing = "which is not there"
			return nil
		case next.kind == symlink && n.kind == hardlink && rest == "":
			n.nothing = "which is a symbolic link"
			return nil
		case next.kind == symlink || next.kind == hardlink:
			to, err := root.resolve(next, depth+1)
			if err != nil {
				return err
			}
			if to == nil {
				n.nothing = "which is such a link itself, or leads over one"
				return nil
			}
			n.hops += next.hops
			next = to
		}
		at = next
	}
	if n.kind == hardlink && at.kind != file {
		n.nothing = "which is a directory"
		return nil
	}
	n.to = at
	return nil
}
