package pack

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// A packedFile is one file of the package: the content of node under its own name.
type packedFile struct {
	name string
	node *node
}

// files returns the sorted files of the package at the root that pattern matches, and the notes about them.
func (root *node) files(pattern string, l Limits) ([]packedFile, *notes, error) {
	dir, err := root.glob(pattern)
	if err != nil {
		return nil, nil, err
	}
	w := walk{root: root, tally: tally{Limits: l}}
	if err := w.dir(dir, ""); err != nil {
		return nil, nil, err
	}
	if len(w.files) == 0 {
		return nil, nil, refuse("it has no file")
	}
	slices.SortFunc(w.files, func(a, b packedFile) int { return cmp.Compare(a.name, b.name) })
	if err := w.noteAlike(); err != nil {
		return nil, nil, err
	}
	return w.files, &w.notes, nil
}

// A walk visits the tree, and writes links as the files to which they lead.
type walk struct {
	root  *node
	tally tally
	files []packedFile
	notes notes
}

// dir visits the entries below n. prefix is the name of n in the package, with a slash at the end.
func (w *walk) dir(n *node, prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		if err := w.entry(n.children[name], prefix+name); err != nil {
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
		w.notes.add("%.200q appears twice; the last one counts", name)
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
			return nil // the link is inside its own target, which is visited already
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
	w.files = append(w.files, packedFile{name, n})
	return nil
}

// noteAlike notes names that some file system treats as equal or does not support. With StrictNames, it refuses them.
func (w *walk) noteAlike() error {
	names := make(map[string]string, len(w.files)) // by folded name, with directories
	last := ""
	for _, f := range w.files {
		for _, name := range append(slices.Collect(newDirs(last, f.name)), f.name) {
			if !utf8.ValidString(path.Base(name)) {
				if w.tally.StrictNames {
					return refuse("%+.200q: the name is not UTF-8, and names are strict", name)
				}
				w.notes.add("%+.200q is not UTF-8, and some file systems have no such name", name)
			}
			if !utf8.ValidString(name) {
				continue // folding would change it
			}
			key := fold(name)
			other, ok := names[key]
			if !ok {
				names[key] = name
				continue
			}
			alike := fmt.Sprintf("some file systems take %+.200q and %+.200q for the same name", other, name)
			if foldCase(other) == foldCase(name) {
				alike = fmt.Sprintf("%.200q and %.200q differ only in case", other, name)
			}
			if w.tally.StrictNames {
				return refuse("%s, and names are strict", alike)
			}
			w.notes.add("%s", alike)
		}
		last = f.name
	}
	return nil
}

// glob returns the one directory that pattern matches. An empty pattern matches the root.
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
			for name, n := range dir.children {
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
	switch len(found) {
	case 0:
		return nil, refuse("the root %.200q matches no directory", pattern)
	case 1:
		return found[0], nil
	}
	slices.SortFunc(found, func(a, b *node) int { return cmp.Compare(a.path(), b.path()) })
	return nil, refuse("the root %.200q matches %d directories, %q and %q among them", pattern, len(found), found[0].path(), found[1].path())
}

const maxNotes, maxNoteBytes = 20, 4 << 10 // of one package

// notes collects notes in the order of the calls of add.
type notes struct {
	list  []string
	bytes int
	more  int // number of dropped notes
}

func (n *notes) add(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if n.more > 0 || len(n.list) == maxNotes-1 || n.bytes+len(note) > maxNoteBytes {
		n.more++
		return
	}
	n.list, n.bytes = append(n.list, note), n.bytes+len(note)
}

// String returns the notes, one on each line.
func (n *notes) String() string {
	list := n.list
	if n.more > 0 {
		list = append(list, fmt.Sprintf("and %d more", n.more))
	}
	return strings.Join(list, "\n")
}
