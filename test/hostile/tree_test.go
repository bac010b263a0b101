//go:build linux

package hostile_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// file is the part of a file in a package that tests compare.
type file struct {
	data string
	exec bool
}

// unpack reads a package. It must contain only regular files and directories with clean names, each name once.
func unpack(t testing.TB, data []byte) map[string]file {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("package: %v", err)
	}
	files, seen := map[string]file{}, map[string]bool{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("package: %v", err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if !fs.ValidPath(name) || seen[name] || strings.ContainsAny(name, "\\\x00") {
			t.Errorf("package: the name %q", h.Name)
		}
		seen[name] = true
		if h.Mode&^0o755 != 0 || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			t.Errorf("package: %q has mode %o and type %q", h.Name, h.Mode, h.Typeflag)
		}
		if h.Typeflag == tar.TypeReg {
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatalf("package: %s: %v", h.Name, err)
			}
			files[name] = file{string(content), h.Mode&0o100 != 0}
		}
	}
	if _, err := io.Copy(io.Discard, z); err != nil {
		t.Fatalf("package: %v", err)
	}
	return files
}

// same compares two trees.
func same(t testing.TB, what string, got, want map[string]file) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if w, ok := want[name]; !ok {
			t.Errorf("%s: %s should not be there", what, name)
		} else if got[name] != w {
			t.Errorf("%s: %s is %.200q, executable %v; want %.200q, %v", what, name, got[name].data, got[name].exec, w.data, w.exec)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[name]; !ok {
			t.Errorf("%s: %s is missing", what, name)
		}
	}
}

// readTree reads the files below a directory, without those of git. It reads the targets of links.
func readTree(t testing.TB, dir string) map[string]file {
	t.Helper()
	files := map[string]file{}
	var walk func(name string)
	walk = func(name string) {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := filepath.Join(name, e.Name())
			info, err := os.Stat(filepath.Join(dir, name))
			switch {
			case e.Name() == ".git":
			case err != nil:
				t.Fatal(err)
			case info.IsDir():
				walk(name)
			default:
				data, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				files[name] = file{string(data), info.Mode()&0o100 != 0}
			}
		}
	}
	walk(".")
	return files
}
