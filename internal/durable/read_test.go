package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(name, []byte("12345"), 0o600), os.Symlink(name, link)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{name, link} {
		if text, err := ReadRegular(name, 5); err != nil || string(text) != "12345" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := ReadRegular(name, 4); err == nil {
		t.Error("a file over the limit was read")
	}
	if _, err := ReadRegular(dir, 5); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a directory: %v", err)
	}
}
