package git

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// convertedLarge returns, in order, the large files of tree that a checkout converts: git archive streams those as
// they are in the repository, unless its threshold is another (write_archive_entry in git's archive.c).
func (r *repository) convertedLarge(ctx context.Context, commit string, tree map[string]entry) ([]string, error) {
	var large strings.Builder
	for name, e := range tree {
		if e.size > largeFile && e.mode != modeLink {
			large.WriteString(name + "\x00")
		}
	}
	if large.Len() == 0 {
		return nil, nil
	}
	// Without a work tree git check-attr finds .gitattributes in the index only.
	if err := r.read(ctx, command{args: []string{"read-tree", commit}}); err != nil {
		return nil, broken(err)
	}
	byPath := make(map[string]attributes)
	err := r.read(ctx, command{
		args:   []string{"check-attr", "--cached", "--stdin", "-z", "text", "crlf", "eol", "ident", "working-tree-encoding"},
		stdin:  large.String(),
		stdout: func(stdout io.Reader) error { return readAttributes(stdout, byPath) },
	})
	if err != nil {
		return nil, broken(err)
	}
	var paths []string
	for path, a := range byPath {
		if a.convert() {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// attributes are those of one path: "set", "unset", "unspecified", or what they are set to.
type attributes map[string]string

// readAttributes reads what git check-attr -z prints: path, attribute and value in turn.
func readAttributes(stdout io.Reader, byPath map[string]attributes) error {
	var fields []string
	values := bufio.NewScanner(stdout)
	values.Split(splitNul)
	for values.Scan() {
		if fields = append(fields, values.Text()); len(fields) < 3 {
			continue
		}
		if byPath[fields[0]] == nil {
			byPath[fields[0]] = make(attributes)
		}
		byPath[fields[0]][fields[1]] = fields[2]
		fields = fields[:0]
	}
	if values.Err() != nil {
		return fmt.Errorf("%w: git check-attr: %w", modproxy.ErrUnavailable, values.Err())
	}
	return nil
}

// convert reports whether a checkout on Linux may write something else than what the repository has
// (https://git-scm.com/docs/gitattributes). There are no filters.
func (a attributes) convert() bool {
	text := a["text"]
	if text == "unspecified" {
		text = a["crlf"] // its name in early versions of git
	}
	return text != "unset" && a["eol"] == "crlf" || a["ident"] == "set" || a["working-tree-encoding"] != "unspecified"
}
