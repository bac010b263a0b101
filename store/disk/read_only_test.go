package disk_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy/store/disk"
)

// snapshot returns the names and contents of all files below dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all[name] = "directory"
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	}))
	return all
}

// A directory that is opened read-only serves its data, refuses every change, and is not changed.
func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, "tmp", "modproxy.123.tmp"), nil, 0o600))
	before := snapshot(t, dir)
	d, err := disk.OpenWith(t.Context(), dir, disk.Options{ReadOnly: true})
	must(t, err)
	beside, err := disk.OpenWith(t.Context(), dir, disk.Options{ReadOnly: true}) // readers do not disturb each other
	must(t, err)
	holds(t, d, want)
	n := 0
	for _, err := range d.Records().List(t.Context(), "", "") {
		must(t, err)
		n++
	}
	for _, err := range d.Blobs().Blobs(t.Context()) {
		must(t, err)
		n++
	}
	if n != 3 {
		t.Errorf("%d records and blobs, want 3", n)
	}
	all := changes(t, d, want)
	all["Ready"], all["ReadOnly"] = d.Ready(), d.ReadOnly()
	for what, err := range all {
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, d.Close(), beside.Close())
	if after := snapshot(t, dir); !maps.Equal(before, after) {
		t.Errorf("the directory was changed")
	}
	if again := mustOpen(t, dir); again.ReadOnly() != nil || again.Ready() != nil {
		t.Errorf("opened to write: %v, %v", again.ReadOnly(), again.Ready())
	}
}

// A read-only directory that needs writing to become sound is refused.
func TestOpenReadOnlyRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"nothing":   {os.RemoveAll, "nothing was ever stored"},
		"empty":     {func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) }, "nothing was ever stored"},
		"no index":  {func(dir string) error { return os.Remove(filepath.Join(dir, "index.db")) }, "is missing"},
		"cut short": {func(dir string) error { return os.Truncate(filepath.Join(dir, "index.db"), 4096) }, "is damaged"},
		"newer layout": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "layout.json"), []byte(`{"layout":9}`), 0o600)
		}, "this modproxy knows layouts up to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			fill(t, dir)
			must(t, c.damage(dir))
			d, err := disk.OpenWith(t.Context(), dir, disk.Options{ReadOnly: true})
			if err == nil {
				d.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}
