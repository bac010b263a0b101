package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A document is docs/how-to/other-tools.md by the titles of its sections. The part before the first section has the
// title "".
type document map[string]*section

type section struct {
	status string // first paragraph, which says whether the program was run
	blocks []block
}

// A block is the text between two fences.
type block struct{ language, text string }

// readDocument reads docs/how-to/other-tools.md of the module that contains the working directory.
func readDocument() (document, error) {
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		text, err := os.ReadFile(filepath.Join(dir, "docs", "how-to", "other-tools.md"))
		if err == nil {
			return parseDocument(string(text)), nil
		}
		if _, end := os.Stat(filepath.Join(dir, "go.mod")); end == nil {
			return nil, err
		}
		if len(dir) > 64 {
			return nil, fmt.Errorf("the working directory is not in the module: %w", err)
		}
	}
}

func parseDocument(text string) document {
	now := &section{}
	d := document{"": now}
	var open *block
	told := false // the first paragraph is complete
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		language, fence := strings.CutPrefix(line, "```")
		switch title, heading := strings.CutPrefix(line, "## "); {
		case open != nil && fence:
			now.blocks = append(now.blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case heading:
			now, told = &section{}, false
			d[title] = now
		case fence:
			open = &block{language: language}
		case line == "":
			told = told || now.status != ""
		case !told:
			now.status += line + "\n"
		}
	}
	return d
}

// has reports whether a block of a section contains text.
func (d document) has(title, text string) bool {
	return d[title] != nil && slices.ContainsFunc(d[title].blocks, func(b block) bool { return strings.Contains(b.text, text) })
}

// unused returns an error if the section of a client has a block that its run has not used.
func (d document) unused(name string, taken map[int]bool) error {
	s := d[name]
	if s == nil {
		return fmt.Errorf("docs/how-to/other-tools.md has no section %q", name)
	}
	for i, b := range s.blocks {
		if !taken[i] {
			first, _, _ := strings.Cut(b.text, "\n")
			return fmt.Errorf("docs/how-to/other-tools.md, %s: the block of %s that begins with %q was not used", name, b.language, first)
		}
	}
	return nil
}
