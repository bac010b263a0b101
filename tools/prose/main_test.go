package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const list = heading + "\n\n- `set aside` → \"quarantined\"\n- `whoever` → the client\n\n## Next\n"

// TestLook: the prose of each kind of file is looked at, also across the end of a line, and nothing else is.
func TestLook(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string // the lines and words of the findings
	}{
		"CONTRIBUTING.md":         {text: list},
		"a.go":                    {"// It is set\n// aside.\npackage a\n\nvar whoever = \"whoever\"\n", []string{"1 set aside", "5 whoever"}},
		"a_test.go":               {"package a\n\nvar _ = \"whoever\" // set aside\n", []string{"3 set aside"}},
		"a.md":                    {"whoever\n\n```\nset aside\n```\n\nIt is set\naside.\n", []string{"1 whoever", "7 set aside"}},
		"a.txt":                   {text: "# whoever\n"},
		"Dockerfile":              {"FROM a\n# whoever\nRUN whoever\n", []string{"2 whoever"}},
		"Makefile":                {"a: ## whoever\n\t# It is set\n\t# aside.\n", []string{"2 set aside"}},
		"a.sh":                    {"#!/bin/sh\n# It is set\n# aside.\necho whoever\n", []string{"2 set aside"}},
		"a.yaml":                  {"whoever: 1\n  # whoever\n", []string{"2 whoever"}},
		"a.yml":                   {"# It is set\n\n# aside.\n#whoever\n", []string{"4 whoever"}},
		"a.txtar":                 {"# It is set\n# aside.\nexec whoever\n-- a.tf --\n# whoever\n", []string{"1 set aside", "5 whoever"}},
		"testdata/script/a.txtar": {"# whoever\n", []string{"1 whoever"}},
		"testdata/a.yaml":         {text: "# whoever\n"},
		"testdata/a.md":           {text: "whoever\n"},
		"man/a.txtar":             {text: "# whoever\n"},
		"in.patch":                {"It is set\naside.\nIn: whoever\nwhoever\n", []string{"1 set aside"}},
		"found.patch":             {"Whoever\nFound by: whoever\n\n--- whoever\n", []string{"1 Whoever"}},
		"changes.patch":           {"whoever\n--- a/whoever\n+++ b/whoever\n+// whoever\n", []string{"1 whoever"}},
	}
	root := t.TempDir()
	for file, tt := range tests {
		name := filepath.Join(root, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := readRules(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := look(root, rules)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range all {
		got[f.file] = append(got[f.file], fmt.Sprint(f.line, " ", f.words))
	}
	for file, tt := range tests {
		slices.Sort(got[file])
		if !slices.Equal(got[file], tt.want) {
			t.Errorf("%s: got %q, want %q", file, got[file], tt.want)
		}
	}
}
