package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy/internal/durable"
)

func content(s string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(s)
		return err
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s has %q, %v; want %q", name, got, err, want)
	}
}

// wantNames compares the names in a directory.
func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("%s has %q, want %q", dir, names, want)
	}
}

// The file is flushed before it receives its name, and the directory afterwards.
func TestWriteFileOrder(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	must(t, os.WriteFile(name, []byte("old"), 0o644))
	var flushed []string
	d := durable.Disk{Sync: func(f *os.File) error {
		now, err := os.ReadFile(name)
		what := "directory"
		if f.Name() != dir {
			what = "file"
		}
		flushed = append(flushed, what+" with "+string(now))
		return errors.Join(err, f.Sync())
	}}
	must(t, d.WriteFile(name, content("new")))
	if want := []string{"file with old", "directory with new"}; !slices.Equal(flushed, want) {
		t.Errorf("flushed %q, want %q", flushed, want)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	wantNames(t, dir, "file")
}

// After any failure, the directory has the complete old file or the complete new one, and nothing else.
func TestWriteFileFails(t *testing.T) {
	broken := errors.New("input/output error")
	for failAt, want := range map[int]string{0: "old", 1: "old", 2: "new"} {
		dir := t.TempDir()
		name := filepath.Join(dir, "file")
		must(t, os.WriteFile(name, []byte("old"), 0o600))
		flushes := 0
		d := durable.Disk{Sync: func(*os.File) error {
			if flushes++; flushes == failAt {
				return broken
			}
			return nil
		}}
		err := d.WriteFile(name, func(f *os.File) error {
			if failAt == 0 {
				return broken
			}
			return content("new")(f)
		})
		if !errors.Is(err, broken) || errors.Is(err, durable.ErrSync) != (failAt > 0) {
			t.Errorf("flush %d: %v", failAt, err)
		}
		wantFile(t, name, want)
		wantNames(t, dir, "file")
	}
}

func TestRenameFails(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "there"), 0o700))
	err := durable.Disk{}.WriteFile(filepath.Join(dir, "there"), content("x"))
	if err == nil || errors.Is(err, durable.ErrSync) {
		t.Errorf("a file in place of a directory: %v", err)
	}
	wantNames(t, dir, "there")
	if err := (durable.Disk{}).WriteFile(filepath.Join(dir, "no", "file"), content("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file in no directory: %v", err)
	}
}

// If a file moves between directories, both are flushed.
func TestRenameBetweenDirectories(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	var flushed []string
	d := durable.Disk{Sync: func(f *os.File) error {
		flushed = append(flushed, strings.TrimPrefix(f.Name(), dir))
		return nil
	}}
	must(t, errors.Join(d.MkdirAll(from), d.MkdirAll(to)))
	temp, err := d.WriteTemp(from, "x", content("x"))
	must(t, err)
	flushed = nil
	must(t, d.Rename(temp, filepath.Join(to, "file")))
	if !slices.Equal(flushed, []string{"/to", "/from"}) {
		t.Errorf("flushed %q", flushed)
	}
	wantNames(t, from)
	wantFile(t, filepath.Join(to, "file"), "x")
}

func TestRemoveTemps(t *testing.T) {
	dir := t.TempDir()
	temp, err := durable.Disk{}.WriteTemp(dir, "tokens.json", content("secret"))
	must(t, err)
	for _, name := range []string{"tokens.json", "keys.json.1.tmp"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "tokens.json.2.tmp"), 0o700))
	must(t, os.Symlink(temp, filepath.Join(dir, "tokens.json.3.tmp")))
	must(t, durable.RemoveTemps(dir, "tokens.json"))
	wantNames(t, dir, "keys.json.1.tmp", "tokens.json", "tokens.json.2.tmp", "tokens.json.3.tmp")
	must(t, durable.RemoveTemps(dir, ""))
	wantNames(t, dir, "tokens.json", "tokens.json.2.tmp", "tokens.json.3.tmp")
}

// Every new directory is flushed in its parent.
func TestMkdirAll(t *testing.T) {
	root := t.TempDir()
	var flushed []string
	d := durable.Disk{Sync: func(f *os.File) error {
		flushed = append(flushed, strings.TrimPrefix(f.Name(), root))
		return f.Sync()
	}}
	for range 2 {
		must(t, d.MkdirAll(filepath.Join(root, "a", "b", "c")))
	}
	if want := []string{"", "/a", "/a/b"}; !slices.Equal(flushed, want) {
		t.Errorf("flushed %q, want %q", flushed, want)
	}
	if info, err := os.Stat(filepath.Join(root, "a", "b")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	must(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	must(t, os.Symlink("a", filepath.Join(root, "link")))
	must(t, os.Symlink("absent/target", filepath.Join(root, "dangling")))
	must(t, d.MkdirAll(filepath.Join(root, "link", "d")))
	for name, want := range map[string]error{
		"file": syscall.ENOTDIR, "file/x": syscall.ENOTDIR, "dangling": fs.ErrNotExist, "dangling/x/y": fs.ErrNotExist,
	} {
		if err := d.MkdirAll(filepath.Join(root, name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// A file system that cannot flush directories is accepted; one whose flush fails is not.
func TestFlushDir(t *testing.T) {
	for _, err := range []error{nil, syscall.EINVAL, syscall.ENOTSUP, syscall.EIO} {
		d := durable.Disk{Sync: func(*os.File) error { return err }}
		if got := d.FlushDir(t.TempDir()); errors.Is(got, durable.ErrSync) != (err == syscall.EIO) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
