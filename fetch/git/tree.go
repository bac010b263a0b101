package git

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
)

// entry is what a tree has under one path.
type entry struct {
	mode string // as git writes it
	id   string
	size int64
}

const (
	modeRegular    = "100644"
	modeExecutable = "100755"
	modeGroup      = "100664" // written by early versions of git
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

const maxMeta = 128 // bytes that git ls-tree prints before a path, and some

// entries returns the whole tree of commit by path.
func (r *repository) entries(ctx context.Context, commit string, l Limits) (tree map[string]entry, err error) {
	err = r.read(ctx, command{
		args: []string{"ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", commit},
		stdout: func(stdout io.Reader) (err error) {
			tree, err = readEntries(stdout, l)
			return err
		},
	})
	if err != nil {
		return nil, broken(err)
	}
	return tree, nil
}

// readEntries reads what git ls-tree prints. A few kilobytes can describe trees without end: an error ends git.
func readEntries(stdout io.Reader, l Limits) (map[string]entry, error) {
	tree := make(map[string]entry)
	var total int64
	paths := 0
	longPath := invalid("the tree has a path of more than the %d bytes that are allowed", l.Path)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, maxMeta+l.Path)
	lines.Split(splitNul)
	for lines.Scan() {
		name, e, err := parseEntry(lines.Text())
		if err != nil {
			return nil, err
		}
		if _, twice := tree[name]; twice {
			return nil, invalid("the tree has %.80q twice", name)
		}
		tree[name] = e
		paths, total = paths+len(name), total+e.size
		switch {
		case len(name) > l.Path:
			return nil, longPath
		case len(tree) > l.Entries:
			return nil, invalid("the tree has more than the %d entries that are allowed", l.Entries)
		case paths > l.Paths:
			return nil, invalid("the paths of the tree are longer together than the %d bytes that are allowed", l.Paths)
		case total > l.Content:
			return nil, invalid("the files are larger than the %d bytes that are allowed", l.Content)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, longPath
	case err != nil:
		return nil, errUnavailable(err)
	}
	return tree, nil
}

func splitNul(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// parseEntry reads one line of git ls-tree -l: mode, type, id, size, tab, path.
func parseEntry(line string) (name string, e entry, err error) {
	meta, name, ok := strings.Cut(line, "\t")
	fields := strings.Fields(meta)
	if !ok || len(fields) != 4 || name == "" {
		return "", entry{}, fmt.Errorf("%w: git ls-tree printed something else", modproxy.ErrUnavailable)
	}
	e = entry{mode: fields[0], id: fields[2]}
	switch e.mode {
	case modeSubmodule:
		return name, e, nil
	case modeRegular, modeExecutable, modeGroup, modeLink:
		if e.size, err = strconv.ParseInt(fields[3], 10, 64); err != nil {
			return "", entry{}, errUnavailable(err) // an object that is not there has no size
		}
		return name, e, nil
	}
	return "", entry{}, invalid("the tree has %.80q with mode %s", name, e.mode)
}

// files writes the files and links of commit, converted as for a work tree, into t below prefix. tree says what
// there must be; what then is left of it are the submodules.
func (r *repository) files(ctx context.Context, commit, prefix string, tree map[string]entry, t tree) error {
	// This file goes before every .gitattributes: git archive leaves nothing out and puts nothing in.
	attributes := filepath.Join(r.dir, "info", "attributes")
	err := os.MkdirAll(filepath.Dir(attributes), 0o700)
	if err == nil {
		err = os.WriteFile(attributes, []byte("* -export-ignore -export-subst\n"), 0o600)
	}
	if err != nil {
		return errUnavailable(err)
	}
	converted, err := r.convertedLarge(ctx, commit, tree)
	if err != nil {
		return err
	}
	unpack := &unpacking{prefix: prefix, tree: tree, later: converted, t: t}
	if err := r.archive(ctx, largeFile, unpack, commit); err != nil {
		return err
	}
	unpack.later = nil
	for paths := range slices.Chunk(converted, 100) { // there are bounds on arguments
		if err := r.archive(ctx, math.MaxInt32, unpack, commit, paths...); err != nil {
			return err
		}
	}
	for name, e := range tree {
		if e.mode != modeSubmodule {
			return fmt.Errorf("%w: git archive left out %.80q", modproxy.ErrUnavailable, name)
		}
	}
	return nil
}

// archive unpacks what commit has at paths, or all of it. What is larger than threshold is streamed, as it is in
// the repository; what is not is held in memory, and converted.
func (r *repository) archive(ctx context.Context, threshold int, u *unpacking, commit string, paths ...string) error {
	args := []string{"-c", "core.bigFileThreshold=" + strconv.Itoa(threshold),
		"archive", "--format=tar", "--end-of-options", commit}
	for _, path := range paths {
		args = append(args, ":(top,literal)"+path)
	}
	return broken(r.read(ctx, command{args: args, stdout: u.read}))
}

// unpacking takes from tree what it has found, and puts it into t.
type unpacking struct {
	prefix string
	tree   map[string]entry
	later  []string // what is passed over, in order
	t      tree
}

// read reads what git archive prints.
func (u *unpacking) read(stdout io.Reader) error {
	for archive := tar.NewReader(stdout); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: git archive: %w", modproxy.ErrUnavailable, err)
		}
		if header.Typeflag == tar.TypeXGlobalHeader || header.Typeflag == tar.TypeDir {
			continue
		}
		if _, later := slices.BinarySearch(u.later, header.Name); later {
			continue
		}
		e, ok := u.tree[header.Name]
		isLink := header.Typeflag == tar.TypeSymlink
		if !ok || e.mode == modeSubmodule || isLink != (e.mode == modeLink) || !isLink && header.Typeflag != tar.TypeReg {
			return fmt.Errorf("%w: git archive printed %.80q, which the tree does not have so", modproxy.ErrUnavailable, header.Name)
		}
		delete(u.tree, header.Name)
		if isLink {
			err = u.t.Link(u.prefix+header.Name, header.Linkname)
		} else {
			err = u.t.File(u.prefix+header.Name, e.mode == modeExecutable, archiveReader{archive})
		}
		if err != nil {
			return err
		}
	}
}

// archiveReader names git archive in its errors.
type archiveReader struct{ r io.Reader }

func (a archiveReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: git archive: %w", modproxy.ErrUnavailable, err)
	}
	return n, err
}
