package disk_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
	"github.com/modproxy/modproxy/cache/disk"
)

// snapshot is the names and contents of what is below dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all[name] = "directory"
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A directory that is opened for reading gives what is kept, says that nothing more
// is, and is not changed by anything that is asked of it.
func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir)
	left := filepath.Join(dir, "tmp", "modproxy-123.tmp")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	s, err := disk.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := disk.OpenReadOnly(dir) // readers do not disturb each other
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := s.Package(vpc, "1.0.0"); rec != want || err != nil {
		t.Errorf("Package = %+v, %v", rec, err)
	}
	if rec, err := s.Versions(vpc); string(rec.Document) != "{}" || err != nil {
		t.Errorf("Versions = %+v, %v", rec, err)
	}
	blob, err := s.Open(want.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(blob); len(data) != 1000 || err != nil {
		t.Errorf("the package has %d bytes, %v", len(data), err)
	}
	blob.Close()
	data, digest := cachetest.Bytes(1000, 2)
	for what, err := range map[string]error{
		"Ready":          s.Ready(),
		"Put":            s.Put(t.Context(), digest, bytes.NewReader(data)),
		"PutPackage":     s.PutPackage(vpc, "1.0.1", want),
		"ReplacePackage": s.ReplacePackage(vpc, "1.0.0", want.Sum, want),
		"PutVersions":    s.PutVersions(vpc, cache.VersionsRecord{Document: []byte("{}")}),
		"PutUses":        s.PutUses([]cache.Use{{Digest: want.Digest, Last: when}}),
		"Remove":         s.Remove(want.Digest),
		"Quarantine":     s.Quarantine(want.Digest),
	} {
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", what, err)
		}
	}
	out, err := s.Verify(t.Context(), disk.Check{
		Data: true, Sum: func(r io.Reader) (modproxy.Sum, error) { _, err := io.Copy(io.Discard, r); return "h1:a", err },
	})
	if err != nil || out.Records != 1 || out.Damage != 0 {
		t.Errorf("Verify = %+v, %v", out, err)
	}
	for _, store := range []*disk.Store{s, beside} {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := snapshot(t, dir); !maps.Equal(before, after) {
		t.Errorf("the directory was changed")
	}
	mustOpen(t, dir).Close() // as before
}

// What cannot be made sound without writing is refused.
func TestOpenReadOnlyRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"nothing":      {os.RemoveAll, "nothing was ever kept"},
		"empty":        {func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) }, "nothing was ever kept"},
		"no index":     {func(dir string) error { return os.Remove(filepath.Join(dir, "index.db")) }, "is missing"},
		"cut short":    {func(dir string) error { return os.Truncate(filepath.Join(dir, "index.db"), 4096) }, "is cut short"},
		"older copy":   {func(dir string) error { return layoutSays(dir, `"generation":`, `"generation":9`) }, "is an older copy"},
		"another":      {func(dir string) error { return layoutSays(dir, `"directory":"`, `"directory":"X`) }, "is not the one that belongs here"},
		"newer layout": {func(dir string) error { return layoutSays(dir, `"layout":`, `"layout":9`) }, "this modproxy knows layouts up to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			fill(t, dir)
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			s, err := disk.OpenReadOnly(dir)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// layoutSays replaces a text in layout.json.
func layoutSays(dir, old, new string) error {
	name := filepath.Join(dir, "layout.json")
	text, err := os.ReadFile(name)
	if err != nil || !bytes.Contains(text, []byte(old)) {
		return errors.Join(err, errors.New("no "+old))
	}
	return os.WriteFile(name, bytes.Replace(text, []byte(old), []byte(new), 1), 0o600)
}

// Who writes is alone.
func TestOpenReadOnlyBesideWriter(t *testing.T) {
	t.Parallel() // it waits for the lock
	dir := t.TempDir()
	fill(t, dir)
	mustOpen(t, dir)
	s, err := disk.OpenReadOnly(dir)
	if err == nil {
		s.Close()
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), "another modproxy holds it") {
		t.Error(err)
	}
}
