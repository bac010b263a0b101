package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
)

// read writes the files and links of commit into t below prefix. links has the commits of submodules, by path, and
// modules the entry of .gitmodules.
func (r *repository) read(ctx context.Context, commit, prefix string, l Limits, t tree) (
	links map[string]entry, modules entry, err error,
) {
	links, modules, err = r.plain(ctx, commit, prefix, l, t)
	if !errors.Is(err, errConverts) {
		return links, modules, err
	}
	if links, err = r.entries(ctx, commit, l); err != nil {
		return nil, entry{}, err
	}
	modules = links[".gitmodules"]
	return links, modules, r.files(ctx, commit, prefix, links, t)
}

// errConverts is the error for a tree with attributes, because git may convert its files.
var errConverts = errors.New("the tree has attributes")

// plain is read for a tree without attributes, with one process. It writes nothing before it has listed the whole tree.
func (r *repository) plain(ctx context.Context, commit, prefix string, l Limits, t tree) (
	map[string]entry, entry, error,
) {
	questions, ask := io.Pipe()
	o := &objects{ask: ask, listing: listing{limits: l, entries: map[string]entry{}}, idSize: len(commit) / 2}
	var modules entry
	c := r.git("cat-file", "--batch")
	c.stdin = questions
	c.stdout = func(stdout io.Reader) error {
		defer ask.Close()
		o.answers = bufio.NewReaderSize(stdout, 64<<10)
		if err := o.walk(commit+"^{tree}", ""); err != nil {
			return err
		}
		var ids strings.Builder
		for _, name := range o.files {
			ids.WriteString(o.entries[name].id + "\n")
		}
		go io.WriteString(ask, ids.String()) // ends at the latest when ask is closed
		for _, name := range o.files {
			if err := o.file(name, prefix, t); err != nil {
				return err
			}
			if name == ".gitmodules" {
				modules = o.entries[name]
			}
			delete(o.entries, name)
		}
		return nil
	}
	err := c.run(ctx)
	return o.entries, modules, broken(err)
}

// objects reads the objects of a repository through one git cat-file --batch.
type objects struct {
	listing
	ask     io.WriteCloser
	answers *bufio.Reader
	idSize  int // bytes
	dirs    int // so far
	files   []string
}

// next reads the header of the next object, and returns the object's size.
func (o *objects) next(kind string) (size int64, err error) {
	line, err := o.answers.ReadSlice('\n')
	if err != nil {
		return 0, fmt.Errorf("%w: git cat-file: %w", modproxy.ErrUnavailable, err)
	}
	fields := strings.Fields(string(line))
	if len(fields) == 3 && fields[1] == kind {
		size, err = strconv.ParseInt(fields[2], 10, 64)
	}
	if len(fields) != 3 || fields[1] != kind || err != nil || size < 0 {
		return 0, fmt.Errorf("%w: git cat-file has no %s: %.80q", modproxy.ErrUnavailable, kind, line)
	}
	return size, nil
}

// end reads the line break after an object.
func (o *objects) end() error {
	if b, err := o.answers.ReadByte(); err != nil || b != '\n' {
		return fmt.Errorf("%w: git cat-file printed something else", modproxy.ErrUnavailable)
	}
	return nil
}

// walk lists the content of the tree id, below prefix, like git ls-tree -r, but with files before directories.
func (o *objects) walk(id, prefix string) error {
	if _, err := io.WriteString(o.ask, id+"\n"); err != nil {
		return errUnavailable(err)
	}
	size, err := o.next("tree")
	switch most := int64(o.limits.Paths) + int64(o.limits.Entries)*int64(len("100644 \x00")+o.idSize); {
	case err != nil:
		return err
	case size > most:
		return invalid("the tree has an object of more than %d bytes", most)
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(o.answers, raw); err != nil {
		return errUnavailable(err)
	}
	if err := o.end(); err != nil {
		return err
	}
	below, err := parseTree(raw, o.idSize)
	if err != nil {
		return err
	}
	for _, e := range below { // count all of them before reading more
		name := prefix + e.name
		switch {
		case e.name == ".gitattributes":
			return errConverts
		case e.mode == modeDirectory:
			if o.dirs++; o.dirs > o.limits.Entries { // directories without files are not listed
				return o.tooMany()
			}
			if len(name) > o.limits.Path {
				return o.tooLong()
			}
			continue
		}
		if err := o.add(name, e.entry); err != nil {
			return err
		}
		if e.mode != modeSubmodule {
			o.files = append(o.files, name)
		}
	}
	for _, e := range below {
		if e.mode == modeDirectory {
			if err := o.walk(e.id, prefix+e.name+"/"); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxLink bounds the target of a link, in bytes.
const maxLink = 1 << 20

// file writes the file or link that comes next in the output.
func (o *objects) file(name, prefix string, t tree) error {
	size, err := o.next("blob")
	if err != nil {
		return err
	}
	e := o.entries[name]
	e.size, o.entries[name] = size, e
	if err := o.grow(size); err != nil {
		return err
	}
	content := &exactly{o.answers, size}
	switch {
	case e.mode != modeLink:
		err = t.File(prefix+name, e.mode == modeExecutable, content)
	case size > maxLink:
		err = invalid("the link %.80q names something of more than %d bytes", name, maxLink)
	default:
		var target []byte
		if target, err = io.ReadAll(content); err == nil {
			err = t.Link(prefix+name, string(target))
		}
	}
	if err == nil {
		_, err = io.Copy(io.Discard, content)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // git was cut short
		return fmt.Errorf("%w: git cat-file: %w", modproxy.ErrUnavailable, err)
	}
	if err != nil {
		return err
	}
	return o.end()
}

// exactly reads exactly left bytes, or fails.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	if e.left -= int64(n); err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// namedEntry is an entry of one tree object.
type namedEntry struct {
	name string
	entry
}

const modeDirectory = "40000"

// parseTree reads a tree object. Each entry has a mode, a space, a name, a zero byte and an object id.
func parseTree(raw []byte, idSize int) (below []namedEntry, err error) {
	for len(raw) > 0 {
		head, rest, ok := bytes.Cut(raw, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		bits, err := strconv.ParseUint(mode, 8, 32)
		if !ok || !named || err != nil || len(rest) < idSize || name == "" || name == "." || name == ".." ||
			strings.Contains(name, "/") {
			return nil, invalid("the tree cannot be read at %.80q", head)
		}
		e := namedEntry{name, entry{id: hex.EncodeToString(rest[:idSize])}}
		switch kind := bits &^ 0o7777; {
		case kind == 0o100000 && bits&0o100 != 0:
			e.mode = modeExecutable
		case kind == 0o100000:
			e.mode = modeRegular
		case kind == 0o120000:
			e.mode = modeLink
		case kind == 0o160000:
			e.mode = modeSubmodule
		case kind == 0o040000:
			e.mode = modeDirectory
		default:
			return nil, invalid("the tree has %.80q with mode %s", name, mode)
		}
		below, raw = append(below, e), rest[idSize:]
	}
	return below, nil
}

// listing has the known part of a tree, within limits.
type listing struct {
	limits  Limits
	entries map[string]entry
	paths   int   // bytes
	total   int64 // bytes
}

// add lists e, whose size may still be unknown.
func (l *listing) add(name string, e entry) error {
	_, twice := l.entries[name]
	l.entries[name] = e
	l.paths += len(name)
	switch {
	case twice:
		return invalid("the tree has %.80q twice", name)
	case len(name) > l.limits.Path:
		return l.tooLong()
	case len(l.entries) > l.limits.Entries:
		return l.tooMany()
	case l.paths > l.limits.Paths:
		return invalid("the paths of the tree are longer together than the %d bytes that are allowed", l.limits.Paths)
	}
	return l.grow(e.size)
}

// grow counts the size of a file.
func (l *listing) grow(size int64) error {
	if l.total += size; l.total > l.limits.Content {
		return invalid("the files are larger than the %d bytes that are allowed (operator: fetch.max_unpacked)", l.limits.Content)
	}
	return nil
}

func (l *listing) tooLong() error {
	return invalid("the tree has a path of more than the %d bytes that are allowed", l.limits.Path)
}

func (l *listing) tooMany() error {
	return invalid("the tree has more than the %d entries that are allowed (operator: fetch.max_files)", l.limits.Entries)
}
