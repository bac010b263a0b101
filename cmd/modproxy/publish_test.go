package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestPublishFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	must(t, publishFile(name, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }))
	if text, err := os.ReadFile(name); err != nil || string(text) != "text" {
		t.Errorf("published %q, %v", text, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o644 {
		t.Errorf("published as %v, %v", info.Mode(), err)
	}
	// What cannot be written leaves what was there, and nothing beside it.
	failed := errors.New("no more")
	if err := publishFile(name, 0o644, func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("publishFile = %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v are left, %v", entries, err)
	}
}
