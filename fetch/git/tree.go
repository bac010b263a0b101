package git

import (
	"archive/tar"
	"bufio"
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

// entry is the content of a tree at one path.
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

const maxMeta = 128 // bytes that git ls-tree prints before a path, with some to spare

// entries returns the whole tree of commit by path. A tree of a few kilobytes can describe endlessly many paths; when a
// limit is exceeded, git is ended.
func (r *repository) entries(ctx context.Context, commit string, l Limits) (map[string]entry, error) {
	tree := listing{limits: l, entries: make(map[string]entry)}
	c := r.git("ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", commit)
	c.stdout = func(stdout io.Reader) error {
		for lines := bufio.NewReaderSize(stdout, maxMeta+l.Path); ; {
			line, err := lines.ReadSlice(0)
			switch {
			case err == io.EOF && len(line) == 0:
				return nil
			case err == bufio.ErrBufferFull:
				return tree.tooLong()
			case err != nil:
				return fmt.Errorf("%w: git ls-tree: %w", modproxy.ErrUnavailable, err)
			}
			name, e, err := parseEntry(string(line[:len(line)-1]))
			if err != nil {
				return err
			}
			if err := tree.add(name, e); err != nil {
				return err
			}
		}
	}
	return tree.entries, broken(c.run(ctx))
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
	case modeRegular, modeExecutable, modeGroup, modeLink:
		e.size, err = strconv.ParseInt(fields[3], 10, 64) // a missing object has no size
		err = errUnavailable(err)
	default:
		err = invalid("the tree has %.80q with mode %s", name, e.mode)
	}
	return name, e, err
}

// files writes the files and links of commit, converted as for a work tree, into t below prefix. tree has the expected
// entries. Afterwards only the submodules are left in it.
func (r *repository) files(ctx context.Context, commit, prefix string, tree map[string]entry, t tree) error {
	// This file takes precedence over every .gitattributes: git archive omits and substitutes nothing.
	info := filepath.Join(r.dir, "info")
	attributes := []byte("* -export-ignore -export-subst\n")
	err := os.MkdirAll(info, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(info, "attributes"), attributes, 0o600)
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
	for paths := range slices.Chunk(converted, 100) { // the size of arguments is limited
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

// convertedLarge returns, sorted, the large files of tree that a checkout converts. git archive streams large files
// unconverted, unless its threshold is raised (write_archive_entry in git's archive.c).
func (r *repository) convertedLarge(
	ctx context.Context, commit string, tree map[string]entry,
) (paths []string, err error) {
	var large strings.Builder
	for name, e := range tree {
		if e.size > largeFile && e.mode != modeLink {
			large.WriteString(name + "\x00")
		}
	}
	if large.Len() == 0 {
		return nil, nil
	}
	// Without a work tree, git check-attr finds .gitattributes only in the index.
	if _, err := r.git("read-tree", commit).output(ctx, 0); err != nil {
		return nil, err
	}
	c := r.git("check-attr", "--cached", "--stdin", "-z", "text", "crlf", "eol", "ident", "working-tree-encoding")
	c.stdin = strings.NewReader(large.String())
	printed, err := c.output(ctx, maxAttributes)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(printed, "\x00"), "\x00")
	for of := range slices.Chunk(fields, 5*3) { // path, attribute and value, for each of the attributes
		if len(of) < 5*3 {
			return nil, fmt.Errorf("%w: git check-attr printed something else", modproxy.ErrUnavailable)
		}
		if converts(of[2], of[5], of[8], of[11], of[14]) {
			paths = append(paths, of[0])
		}
	}
	slices.Sort(paths)
	return paths, nil
}

const maxAttributes = 4 << 20 // bytes of output about large files; a tree can have only a few of them

// converts reports whether a checkout on Linux may change the content of a file. The arguments are the values of the
// path's attributes: "set", "unset", "unspecified", or another value (https://git-scm.com/docs/gitattributes). No
// filters are configured.
func converts(text, crlf, eol, ident, encoding string) bool {
	if text == "unspecified" {
		text = crlf // the attribute's name in early versions of git
	}
	return text != "unset" && eol == "crlf" || ident == "set" || encoding != "unspecified"
}

// archive unpacks the given paths of commit, or all of it. git streams files that are larger than threshold
// unconverted. It reads smaller files into memory and converts them.
func (r *repository) archive(ctx context.Context, threshold int, u *unpacking, commit string, paths ...string) error {
	c := r.git("-c", "core.bigFileThreshold="+strconv.Itoa(threshold), "archive", "--format=tar",
		"--end-of-options", commit)
	for _, path := range paths {
		c.args = append(c.args, ":(top,literal)"+path)
	}
	c.stdout = u.read
	return broken(c.run(ctx))
}

// unpacking removes found entries from tree, and writes their content to t.
type unpacking struct {
	prefix string
	tree   map[string]entry
	later  []string // skipped paths, sorted
	t      tree
}

// read reads the output of git archive.
func (u *unpacking) read(stdout io.Reader) error {
	for archive := tar.NewReader(stdout); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: git archive: %w", modproxy.ErrUnavailable, err)
		}
		name, kind := header.Name, header.Typeflag
		if _, later := slices.BinarySearch(u.later, name); later || kind == tar.TypeXGlobalHeader || kind == tar.TypeDir {
			continue
		}
		e, ok := u.tree[name]
		delete(u.tree, name)
		switch {
		case ok && e.mode == modeLink && kind == tar.TypeSymlink:
			err = u.t.Link(u.prefix+name, header.Linkname)
		case ok && e.mode != modeLink && e.mode != modeSubmodule && kind == tar.TypeReg:
			err = u.t.File(u.prefix+name, e.mode == modeExecutable, archive)
		default:
			err = fmt.Errorf("%w: git archive printed %.80q, which the tree does not have so", modproxy.ErrUnavailable, name)
		}
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF): // git was cut short
			return fmt.Errorf("%w: git archive: %w", modproxy.ErrUnavailable, err)
		case err != nil:
			return err
		}
	}
}
