package disk_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
	"github.com/modproxy/modproxy/cache/disk"
)

var (
	vpc  = modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	when = time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
)

// fill keeps a package and a versions document in dir.
func fill(t testing.TB, dir string) cache.PackageRecord {
	t.Helper()
	s := mustOpen(t, dir)
	data, digest := cachetest.Bytes(1000, 1)
	rec := cache.PackageRecord{Digest: digest, Sum: "h1:a", Size: 1000, Subdir: "a/b", Fetched: when}
	for _, err := range []error{
		s.Put(t.Context(), digest, bytes.NewReader(data)),
		s.PutPackage(vpc, "1.0.0", rec),
		s.PutVersions(vpc, cache.VersionsRecord{Document: []byte("{}"), Time: when, Asked: when}),
		s.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return rec
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir)
	for range 2 {
		s := mustOpen(t, dir)
		if rec, err := s.Package(vpc, "1.0.0"); rec != want || err != nil {
			t.Errorf("Package = %+v, %v", rec, err)
		}
		if rec, err := s.Versions(vpc); string(rec.Document) != "{}" || err != nil {
			t.Errorf("Versions = %+v, %v", rec, err)
		}
		if size, err := s.Stat(want.Digest); size != 1000 || err != nil {
			t.Errorf("Stat = %d, %v", size, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, err := range []error{
			s.PutPackage(vpc, "1.0.1", want), s.PutVersions(vpc, cache.VersionsRecord{}),
			s.Put(t.Context(), modproxy.Digest{1}, strings.NewReader("")), s.Quarantine(want.Digest),
		} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	cut := func(n int64) func(string) error {
		return func(index string) error { return os.Truncate(index, n) }
	}
	empty := t.TempDir()
	mustOpen(t, empty).Close()
	for name, c := range map[string]struct {
		damage func(index string) error
		want   string
	}{
		"missing":   {os.Remove, "is missing"},
		"no bytes":  {cut(0), "is empty"},
		"one page":  {cut(4096), "is cut short"},
		"a byte":    {cut(16<<10 - 1), "is cut short"},
		"two bytes": {cut(2), "is damaged"},
		"text":      {func(index string) error { return os.WriteFile(index, make([]byte, 99_999), 0o600) }, "is damaged"},
		"another, empty": {func(index string) error {
			return errors.Join(os.Remove(index), os.Link(filepath.Join(empty, "index.db"), index))
		}, "is not the one that belongs here"},
		"both metas": {func(index string) error {
			return errors.Join(overwrite(index, 16+8, "xxxx"), overwrite(index, 4096+16+8, "xxxx"))
		}, "is damaged"},
		"zero page": {func(index string) error {
			zeros := string(make([]byte, 4096))
			for page := int64(2); page < 8; page++ {
				if err := overwrite(index, page*4096, zeros); err != nil {
					return err
				}
			}
			return nil
		}, "index"},
		"newer layout": {func(index string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(index), "layout.json"), []byte(`{"layout": 2}`), 0o600)
		}, "layout 2, and this modproxy knows layouts up to 1"},
		"no layout": {func(index string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(index), "layout.json"), nil, 0o600)
		}, "layout.json"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir)
			if err := c.damage(filepath.Join(dir, "index.db")); err != nil {
				t.Fatal(err)
			}
			s, err := disk.Open(dir)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

func overwrite(name string, at int64, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), at)
	return errors.Join(err, f.Close())
}

// Of the two metas that bbolt has one is as old as the last transaction: an index
// that has only that one is an older copy. The other one is not missed.
func TestOpenWithOneMeta(t *testing.T) {
	refused := 0
	for page := range int64(2) {
		dir := t.TempDir()
		fill(t, dir)
		if err := overwrite(filepath.Join(dir, "index.db"), page*4096+16+8, "xxxx"); err != nil {
			t.Fatal(err)
		}
		s, err := disk.Open(dir)
		if err == nil {
			s.Close()
			continue
		}
		refused++
		if !strings.Contains(err.Error(), "is an older copy") {
			t.Error(err)
		}
	}
	if refused != 1 {
		t.Errorf("%d of 2 refused", refused)
	}
}

func TestOpenTwice(t *testing.T) {
	t.Parallel() // it waits for the lock
	dir := t.TempDir()
	mustOpen(t, dir)
	started := time.Now()
	s, err := disk.Open(dir)
	if err == nil {
		s.Close()
		t.Fatal("it was opened twice")
	}
	if !strings.Contains(err.Error(), "another modproxy holds it") || !strings.Contains(err.Error(), "index.db") {
		t.Error(err)
	}
	if time.Since(started) > 5*time.Second {
		t.Errorf("it took %v", time.Since(started))
	}
}

func TestOpenCleansWhatIsItsOwn(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	ours, theirs := filepath.Join(dir, "tmp", "modproxy-123.tmp"), filepath.Join(dir, "tmp", "notes.tmp")
	for _, name := range []string{ours, theirs} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, dir)
	if _, err := os.Stat(ours); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ours: %v", err)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Errorf("theirs: %v", err)
	}
}

// Whatever single byte of the index changes, a record is what it was: it is taken
// from beside the index. What bbolt cannot bear is refused by Open.
func TestIndexDamage(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir)
	name := filepath.Join(dir, "index.db")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	refused, mended := 0, 0
	for at := range whole {
		if whole[at] == 0 && at%64 != 0 || whole[at] != 0 && at%5 != 0 {
			continue // there are too many
		}
		flipped := bytes.Clone(whole)
		flipped[at] ^= 4
		// Another file, because bbolt leaves the one locked that it panics about.
		if err := errors.Join(os.Remove(name), os.WriteFile(name, flipped, 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := disk.Open(dir)
		if err != nil {
			refused++
			continue
		}
		if rec, err := s.Package(vpc, "1.0.0"); rec != want || err != nil {
			t.Errorf("byte %d: %+v, %v", at, rec, err)
		}
		mended += s.Mended()
		s.Close()
		if err := os.Remove(filepath.Join(dir, "layout.json")); err != nil { // the generation goes on
			t.Fatal(err)
		}
	}
	if refused == 0 || mended == 0 {
		t.Errorf("%d refused, %d mended", refused, mended)
	}
}

// What is on the disk is named by digests, read-only where it never changes,
// and a sidecar says all that the index does.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	rec := fill(t, dir)
	s := mustOpen(t, dir)
	if err := s.Quarantine(rec.Digest); err != nil {
		t.Fatal(err)
	}
	data, _ := cachetest.Bytes(1000, 1)
	if err := s.Put(t.Context(), rec.Digest, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	var names []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			info, _ := entry.Info()
			name, _ = filepath.Rel(dir, name)
			names = append(names, info.Mode().String()+" "+name)
		}
		return err
	})
	hex := rec.Digest.String()
	want := []string{
		"-r--r--r-- blobs/v1/sha256/" + hex[:2] + "/" + hex,
		"-rw------- index.db",
		"-rw------- layout.json",
		"-rw------- packages/v1/" + sidecar[:2] + "/" + sidecar + ".meta",
		"-r--r--r-- quarantine/" + hex + ".1",
	}
	if strings.Join(names, "\n") != strings.Join(want, "\n") || err != nil {
		t.Errorf("%v\n%s\nwant\n%s", err, strings.Join(names, "\n"), strings.Join(want, "\n"))
	}
	text, err := os.ReadFile(filepath.Join(dir, "packages/v1", sidecar[:2], sidecar+".meta"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{hex, "registry.example.com", `"1.0.0"`, "h1:a", "a/b", "2026-03-04T05:06:07.000000008Z"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the sidecar has no %q: %s", part, text)
		}
	}
}

// sidecar is the SHA-256 of the parts of vpc and of 1.0.0, each behind a byte that
// is its length.
const sidecar = "337b4fe8b48012312bf45c1f24900d885ba8f096ae856432a7a5731edb3e77f8"

func TestBlobOfAnotherKind(t *testing.T) {
	dir := t.TempDir()
	rec := fill(t, dir)
	s := mustOpen(t, dir)
	name := filepath.Join(dir, "blobs/v1/sha256", rec.Digest.String()[:2], rec.Digest.String())
	if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(rec.Digest); !errors.Is(err, cache.ErrDamaged) {
		t.Errorf("Open = %v", err)
	}
	if _, err := s.Stat(rec.Digest); !errors.Is(err, cache.ErrDamaged) {
		t.Errorf("Stat = %v", err)
	}
	if err := s.Put(t.Context(), rec.Digest, io.MultiReader()); !errors.Is(err, cache.ErrDamaged) {
		t.Errorf("Put = %v", err)
	}
	if err := s.Quarantine(rec.Digest); err != nil {
		t.Errorf("Quarantine = %v", err)
	}
}
