package main_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code        = regexp.MustCompile("`[^`]*`")
	headingLine = regexp.MustCompile(`^#{1,6} (.*)$`)
	dropped     = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	docPath     = regexp.MustCompile(`docs/(?:tutorials|how-to|reference|explanation)/[a-z-]+\.md`)
)

// anchors returns the fragments that lead to the headings of a page, as GitHub makes them.
func (p page) anchors() map[string]bool {
	found := map[string]bool{}
	for _, line := range p.prose() {
		if m := headingLine.FindStringSubmatch(line); m != nil {
			text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
			anchor := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
			for n := 1; found[anchor]; n++ {
				anchor = fmt.Sprintf("%s-%d", strings.TrimSuffix(anchor, fmt.Sprintf("-%d", n-1)), n)
			}
			found[anchor] = true
		}
	}
	return found
}

// markdown returns all Markdown files of the tree but those of test data.
func markdown(t *testing.T) []page {
	t.Helper()
	var pages []page
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			path, err = filepath.Rel(top, path)
			pages = append(pages, readPage(t, filepath.ToSlash(path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestDocsLinks checks that every relative link leads to a file, and every fragment to a heading.
func TestDocsLinks(t *testing.T) {
	pages := markdown(t)
	anchors := map[string]map[string]bool{}
	for _, p := range pages {
		anchors[p.name] = p.anchors()
	}
	links := 0
	for _, p := range pages {
		for i, line := range p.prose() {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "``"), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				links++
				path, fragment, _ := strings.Cut(m[1], "#")
				target := p.name
				if path != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(p.name), path))
				}
				if _, err := os.Stat(filepath.Join(top, target)); err != nil {
					t.Errorf("%s:%d: %s: no such file", p.name, i+1, m[1])
				} else if fragment != "" && !anchors[target][fragment] {
					t.Errorf("%s:%d: %s: no such heading", p.name, i+1, m[1])
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found", links)
	}
}

// TestDocsPaths checks that the pages exist that Go files name, in messages and comments.
func TestDocsPaths(t *testing.T) {
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range docPath.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(top, name)); err != nil {
				t.Errorf("%s: %s: no such page", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
