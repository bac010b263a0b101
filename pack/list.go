package pack

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// An item is one file of the package: the content of node under a name of its own.
type item struct {
	name string
	node *node
}

// list is the files of the package whose root is dir, in the order they are packed,
// and what there is to say of them.
func (root *node) list(dir *node, l Limits) ([]item, *notes, error) {
	w := walk{root: root, tally: tally{Limits: l}}
	if err := w.dir(dir, ""); err != nil {
		return nil, nil, err
	}
	if len(w.items) == 0 {
		return nil, nil, refuse("there is no file in it")
	}
	slices.SortFunc(w.items, func(a, b item) int { return cmp.Compare(a.name, b.name) })
	if err := w.alike(l.StrictNames); err != nil {
		return nil, nil, err
	}
	return w.items, &w.notes, nil
}

type walk struct {
	root  *node
	tally tally
	items []item
	notes notes
}

// alike notes the names that some file system takes for the same, or refuses them
// when names are strict.
func (w *walk) alike(strict bool) error {
	names := make(map[string]string, len(w.items)) // by folded name, directories too
	add := func(name string) error {
		key := fold(name)
		other, ok := names[key]
		switch {
		case !ok:
			names[key] = name
		case strict:
			return refuse("%s, and names are strict", alike(other, name))
		default:
			w.notes.add("%s", alike(other, name))
		}
		return nil
	}
	last := ""
	for _, it := range w.items {
		for dir := range newDirs(last, it.name) {
			if err := add(dir); err != nil {
				return err
			}
		}
		if err := add(it.name); err != nil {
			return err
		}
		last = it.name
	}
	return nil
}

// dir lists what is below n, which the package has under the name prefix.
func (w *walk) dir(n *node, prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(n.kids)) {
		if err := w.entry(n.kids[name], prefix+name); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(n *node, name string) error {
	if err := w.tally.entry(name, 0); err != nil {
		return err
	}
	if n.twice {
		w.notes.add("%.200q is there twice, and the last one counts", name)
	}
	if n.kind == symlink || n.kind == hardlink {
		to, err := w.root.resolve(n, 0)
		if err != nil {
			return err
		}
		if to == nil {
			w.notes.add("%.200q is left out: %s to %.200q, %s", name, n.kind, n.target, n.nothing)
			return nil
		}
		if n.busy {
			return nil // met again below what it names: once is enough
		}
		link := n
		link.busy = true
		defer func() { link.busy = false }()
		n = to
	}
	if n.kind == directory {
		return w.dir(n, name+"/")
	}
	if err := w.tally.content(name, n.size); err != nil {
		return err
	}
	w.items = append(w.items, item{name, n})
	return nil
}

// glob finds the one directory that pattern matches; the empty pattern is the root.
func (root *node) glob(pattern string) (*node, error) {
	if pattern == "" {
		return root, nil
	}
	found := []*node{root}
	for part := range strings.SplitSeq(pattern, "/") {
		if part == "" || part == "." || part == ".." {
			return nil, refuse("the root %.200q is not a clean path", pattern)
		}
		var next []*node
		for _, dir := range found {
			for name, n := range dir.kids {
				ok, err := path.Match(part, name)
				if err != nil {
					return nil, refuse("the root %.200q is not a pattern", pattern)
				}
				if ok && n.kind == directory {
					next = append(next, n)
				}
			}
		}
		found = next
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) == 0 {
		return nil, refuse("the root %.200q matches no directory", pattern)
	}
	slices.SortFunc(found, func(a, b *node) int { return cmp.Compare(a.path(), b.path()) })
	return nil, refuse("the root %.200q matches %d directories, %q and %q among them: which one is not clear", pattern, len(found), found[0].path(), found[1].path())
}
