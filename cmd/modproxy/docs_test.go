package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// top is the directory of the module, seen from the tests of this package.
const top = "../.."

// maxReadme is the number of lines that the README may have: everything else belongs to a page of docs.
const maxReadme = 250

// page is a Markdown file: its path below the top, and its lines.
type page struct {
	name  string
	lines []string
}

// isGenerated reports whether a test writes the page. Its commands are the examples of the help, whose verbs and flags are checked.
func (p page) isGenerated() bool { return strings.Contains(p.lines[0], "-update writes this page") }

// docPages returns the README and the pages of docs.
func docPages(t *testing.T) []page {
	t.Helper()
	names := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			path, err = filepath.Rel(top, path)
			names = append(names, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var pages []page
	for _, name := range names {
		pages = append(pages, readPage(t, name))
	}
	return pages
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return page{name, strings.Split(string(text), "\n")}
}

// codeBlock is a fenced block of a page, with the comment in the line before it.
type codeBlock struct {
	language, marker string
	line, indent     int // of the opening fence
	lines            []string
}

// blocks returns the fenced blocks of the page, in order.
func (p page) blocks() []codeBlock {
	var blocks []codeBlock
	open := false
	for i, line := range p.lines {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && !open:
			b := codeBlock{language: language, line: i + 1, indent: len(line) - len(strings.TrimLeft(line, " "))}
			if i > 0 {
				b.marker, _ = strings.CutPrefix(strings.TrimSpace(p.lines[i-1]), "<!-- ")
				b.marker, _ = strings.CutSuffix(b.marker, " -->")
			}
			blocks, open = append(blocks, b), true
		case fence:
			open = false
		case open:
			b := &blocks[len(blocks)-1]
			b.lines = append(b.lines, line[min(b.indent, len(line)):])
		}
	}
	return blocks
}

// prose returns the lines of the page outside of fenced blocks; the others are empty.
func (p page) prose() []string {
	lines := slices.Clone(p.lines)
	open := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			open = !open
		}
		if fence || open {
			lines[i] = ""
		}
	}
	return lines
}

// TestDocsForm checks that the pages that lead to a goal say what to do if it fails.
func TestDocsForm(t *testing.T) {
	for _, p := range docPages(t) {
		leads := strings.HasPrefix(p.name, "docs/tutorials/") || strings.HasPrefix(p.name, "docs/how-to/")
		if leads && p.name != "docs/how-to/other-tools.md" && !p.anchors()["if-it-fails"] { // in this page each tool has such a part
			t.Errorf("%s has no heading \"If it fails\"", p.name)
		}
	}
}

// TestReadmeTable checks that the README leads to every page of docs, and is short.
func TestReadmeTable(t *testing.T) {
	readme := readPage(t, "README.md")
	text := strings.Join(readme.lines, "\n")
	for _, p := range docPages(t)[1:] {
		if !strings.Contains(text, "]("+p.name+")") {
			t.Errorf("the README has no link to %s", p.name)
		}
	}
	if n := len(readme.lines) - 1; n > maxReadme {
		t.Errorf("the README has %d lines, and may have %d", n, maxReadme)
	}
}
