package rig

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The lists of tests that "make test" treats differently name tests that exist.
func TestLists(t *testing.T) {
	dirs := map[string][]string{} // of the packages that have a test of that name
	module, err := root()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(module, func(name string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for line := range bytes.Lines(text) {
			if rest, ok := strings.CutPrefix(string(line), "func Test"); ok {
				test, _, _ := strings.Cut("Test"+rest, "(")
				dir, err := filepath.Rel(module, filepath.Dir(name))
				if err != nil {
					return err
				}
				dirs[test] = append(dirs[test], dir)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"nightly", "unraced"} {
		text, err := os.ReadFile(filepath.Join(module, "test", list))
		if err != nil {
			t.Fatal(err)
		}
		n, listed := 0, map[string][]string{}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "Test") {
				continue
			}
			n++
			line, dir, inDir := strings.Cut(strings.TrimSpace(line), " ")
			test, _, _ := strings.Cut(line, "/")
			if len(dirs[test]) == 0 || inDir && !slices.Contains(dirs[test], dir) {
				t.Errorf("test/%s: there is no %s %s", list, test, dir)
			}
			if inDir {
				listed[test] = append(listed[test], dir)
			}
		}
		// A list with directories selects tests by their names alone, and then runs the listed ones.
		for test, in := range listed {
			for _, dir := range dirs[test] {
				if !slices.Contains(in, dir) {
					t.Errorf("test/%s: %s %s is not listed and would not run: name it otherwise", list, test, dir)
				}
			}
		}
		if n == 0 {
			t.Errorf("test/%s is empty", list)
		}
	}
}
