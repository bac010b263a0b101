package git

import (
	"context"
	"slices"
	"strings"
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
	args := []string{"check-attr", "--cached", "--stdin", "-z", "text", "crlf", "eol", "ident", "working-tree-encoding"}
	printed, err := r.output(ctx, command{args: args, stdin: large.String()}, maxAttributes)
	if err != nil {
		return nil, broken(err)
	}
	byPath := make(map[string]attributes)
	for triple := range slices.Chunk(strings.Split(printed, "\x00"), 3) { // path, attribute and value
		if len(triple) < 3 {
			break
		}
		if byPath[triple[0]] == nil {
			byPath[triple[0]] = make(attributes)
		}
		byPath[triple[0]][triple[1]] = triple[2]
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

const maxAttributes = 4 << 20 // bytes that are printed of the attributes of large files, which cannot be many

// attributes are those of one path: "set", "unset", "unspecified", or what they are set to.
type attributes map[string]string

// convert reports whether a checkout on Linux may write something else than what the repository has
// (https://git-scm.com/docs/gitattributes). There are no filters.
func (a attributes) convert() bool {
	text := a["text"]
	if text == "unspecified" {
		text = a["crlf"] // its name in early versions of git
	}
	return text != "unset" && a["eol"] == "crlf" || a["ident"] == "set" || a["working-tree-encoding"] != "unspecified"
}
