package disk_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
	"github.com/modproxy/modproxy/cache/disk"
)

// fillMany keeps n packages and a list of versions, and is the records by their
// versions.
func fillMany(t testing.TB, dir string, n int) map[string]cache.PackageRecord {
	t.Helper()
	s := mustOpen(t, dir)
	all := map[string]cache.PackageRecord{}
	for i := range n {
		version := fmt.Sprintf("1.%d.0", i)
		data, digest := cachetest.Bytes(100+i, byte(i))
		rec := cache.PackageRecord{Digest: digest, Sum: "h1:a", Size: int64(len(data)), Fetched: when}
		if err := errors.Join(s.Put(t.Context(), digest, bytes.NewReader(data)), s.PutPackage(vpc, version, rec)); err != nil {
			t.Fatal(err)
		}
		all[version] = rec
		// Lists that are replaced, of which the last one counts.
		document := fmt.Appendf(nil, `{"modules": [{"text": %q, "n": %d}]}`, strings.Repeat("x\n{\"", i*100), i)
		if i%3 > 0 {
			document = zip(t, document)
		}
		if err := s.PutVersions(vpc, cache.VersionsRecord{Document: document, Time: when, Asked: when.Add(time.Duration(i))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func zip(t testing.TB, document []byte) []byte {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(document); errors.Join(err, z.Close()) != nil {
		t.Fatal(err)
	}
	return zipped.Bytes()
}

// records is what a directory has.
func records(t *testing.T, dir string) map[string]cache.PackageRecord {
	t.Helper()
	s := mustOpen(t, dir)
	defer s.Close()
	all := map[string]cache.PackageRecord{}
	for kept, err := range s.Packages(vpc) {
		if err != nil {
			t.Fatal(err)
		}
		all[kept.Version] = kept.Record
	}
	return all
}

func rebuild(t *testing.T, dir string) disk.Rebuilt {
	t.Helper()
	out, err := disk.Rebuild(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever happens to the index, Open refuses it and Rebuild restores every
// record; and it can be run again.
func TestRebuild(t *testing.T) {
	const n = 30
	older, foreign := t.TempDir(), t.TempDir()
	fillMany(t, foreign, 3)
	cut := func(index string) error { return os.Truncate(index, 12_345) }
	for name, c := range map[string]struct {
		damage  func(t *testing.T, index string) error
		problem string
		lists   int // whether the list of versions is whole
	}{
		"missing":   {func(_ *testing.T, index string) error { return os.Remove(index) }, "missing", 0},
		"empty":     {func(_ *testing.T, index string) error { return os.Truncate(index, 0) }, "empty", 0},
		"cut short": {func(_ *testing.T, index string) error { return cut(index) }, "cut short", -1},
		"zeros":     {func(_ *testing.T, index string) error { return os.WriteFile(index, make([]byte, 50_000), 0o600) }, "damaged", 0},
		"metas": {func(_ *testing.T, index string) error {
			return errors.Join(overwrite(index, 16+8, "xxxx"), overwrite(index, 4096+16+8, "xxxx"))
		}, "damaged", 1},
		"older": {func(_ *testing.T, index string) error { return copyFile(index, filepath.Join(older, "index.db")) }, "older copy", -1},
		"foreign": {func(_ *testing.T, index string) error {
			return copyFile(index, filepath.Join(foreign, "index.db"))
		}, "another directory", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fillMany(t, dir, 2)
			if err := copyFile(filepath.Join(older, "index.db"), filepath.Join(dir, "index.db")); err != nil {
				t.Fatal(err)
			}
			want := fillMany(t, dir, n)
			if err := c.damage(t, filepath.Join(dir, "index.db")); err != nil {
				t.Fatal(err)
			}
			if s, err := disk.Open(dir); err == nil {
				s.Close()
				t.Fatal("it was opened")
			} else if !strings.Contains(err.Error(), "modproxy rebuild") {
				t.Errorf("no remedy: %v", err)
			}
			damaged, errDamaged := os.ReadFile(filepath.Join(dir, "index.db"))
			out := rebuild(t, dir)
			if !strings.Contains(out.Problem, c.problem) || out.Packages != n || out.Absent != 0 || out.Orphans != 0 || len(out.Damaged)+len(out.Conflicts) != 0 {
				t.Errorf("%+v", out)
			}
			if c.lists >= 0 && out.Versions != c.lists {
				t.Errorf("%d lists of versions", out.Versions)
			}
			if errDamaged == nil {
				if aside, err := os.ReadFile(out.Aside); err != nil || !bytes.Equal(aside, damaged) {
					t.Errorf("the evidence: %d bytes, %v", len(aside), err)
				}
			}
			for range 2 {
				if got := records(t, dir); !maps.Equal(got, want) {
					t.Errorf("%d records, want %d", len(got), len(want))
				}
				if out := rebuild(t, dir); out.Problem != "" || out.Packages != n || out.Found != 0 {
					t.Errorf("again: %+v", out)
				}
			}
		})
	}
}

// Records whose copies are gone or damaged are taken from the index, however
// damaged that is; and what cannot be restored is said.
func TestRebuildFromTheIndex(t *testing.T) {
	dir := t.TempDir()
	want := fillMany(t, dir, 30)
	sidecars, err := filepath.Glob(filepath.Join(dir, "packages/v1/*/*.meta"))
	if err != nil || len(sidecars) != 30 {
		t.Fatal(len(sidecars), err)
	}
	for i, name := range sidecars {
		switch i % 3 {
		case 0:
			err = os.Remove(name)
		case 1:
			err = overwrite(name, 70, "xxxx")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	index := filepath.Join(dir, "index.db")
	if err := errors.Join(overwrite(index, 16, string(make([]byte, 80))), overwrite(index, 4096+16, string(make([]byte, 80)))); err != nil {
		t.Fatal(err)
	}
	out := rebuild(t, dir)
	if out.Packages != 30 || out.Found != 20 || len(out.Damaged) != 10 || out.Versions != 1 {
		t.Errorf("%+v", out)
	}
	if got := records(t, dir); !maps.Equal(got, want) {
		t.Errorf("%d records", len(got))
	}
	s := mustOpen(t, dir)
	rec, err := s.Versions(vpc)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(rec.Document))
	if err != nil {
		t.Fatal(err)
	}
	if document, err := io.ReadAll(z); err != nil || !bytes.Contains(document, []byte(`"n": 29}`)) {
		t.Errorf("%s, %v", document, err)
	}
	if again, err := filepath.Glob(filepath.Join(dir, "packages/v1/*/*.meta")); len(again) != 30 || err != nil {
		t.Errorf("%d copies, %v", len(again), err)
	}
}

// Packages without their bytes stay recorded, and are known to be absent; bytes
// without a record are counted.
func TestRebuildWithoutBlobs(t *testing.T) {
	dir := t.TempDir()
	want := fillMany(t, dir, 3)
	blob := want["1.1.0"].Digest.String()
	if err := errors.Join(os.Remove(filepath.Join(dir, "blobs/v1/sha256", blob[:2], blob)), os.Remove(filepath.Join(dir, "index.db"))); err != nil {
		t.Fatal(err)
	}
	_, orphan := cachetest.Bytes(5, 99)
	name := filepath.Join(dir, "blobs/v1/sha256", orphan.String()[:2])
	if err := errors.Join(os.MkdirAll(name, 0o700), os.WriteFile(filepath.Join(name, orphan.String()), nil, 0o400)); err != nil {
		t.Fatal(err)
	}
	if out := rebuild(t, dir); out.Packages != 3 || out.Absent != 1 || out.Orphans != 1 {
		t.Errorf("%+v", out)
	}
	s := mustOpen(t, dir)
	for use, err := range s.Uses() {
		if use.Digest != want["1.1.0"].Digest || !use.Evicted || err != nil {
			t.Errorf("%+v, %v", use, err)
		}
	}
}

func TestRebuildRefuses(t *testing.T) {
	dir := t.TempDir()
	fillMany(t, dir, 2)
	s := mustOpen(t, dir)
	if _, err := disk.Rebuild(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), "another modproxy holds it") {
		t.Errorf("while it is open: %v", err)
	}
	s.Close()
	if err := os.WriteFile(filepath.Join(dir, "layout.json"), []byte(`{"layout": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Rebuild(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), "layout 2") {
		t.Errorf("a newer layout: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "layout.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := rebuild(t, dir); out.Packages != 2 || len(out.Damaged) != 1 {
		t.Errorf("an empty layout: %+v", out)
	}
	mustOpen(t, dir)
}

// Whatever is overwritten in the index at random, no record is lost.
func TestRebuildLosesNothing(t *testing.T) {
	dir := t.TempDir()
	want := fillMany(t, dir, 10)
	index := filepath.Join(dir, "index.db")
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		info, err := os.Stat(index)
		if err != nil {
			t.Fatal(err)
		}
		noise, _ := cachetest.Bytes(1+random.IntN(5000), byte(random.IntN(256)))
		if err := overwrite(index, random.Int64N(info.Size()), string(noise)); err != nil {
			t.Fatal(err)
		}
		rebuild(t, dir)
		if got := records(t, dir); !maps.Equal(got, want) {
			t.Fatalf("%d records", len(got))
		}
	}
	if aside, err := os.ReadDir(filepath.Join(dir, "quarantine")); len(aside) != 30 || err != nil {
		t.Errorf("%d indexes set aside, %v", len(aside), err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "tmp"))
	if len(left) != 0 || err != nil {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// What is in the place of a file, and is none, is set aside.
func TestRebuildWhereNoFilesAre(t *testing.T) {
	for _, name := range []string{"index", "copy"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			path := map[string]string{"index": filepath.Join(w.dir, "index.db"), "copy": w.sidecar}[name]
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "x"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			if name == "index" {
				if s, err := disk.Open(w.dir); err == nil || !strings.Contains(err.Error(), "rebuild") {
					t.Errorf("open: %v, %v", s, err)
				}
			}
			out, err := disk.Rebuild(t.Context(), w.dir, nil)
			aside := append(out.Damaged, out.Aside)
			if err != nil || out.Packages != 3 || name == "index" && out.Problem == "" {
				t.Fatalf("%+v, %v", out, err)
			}
			if _, err := os.Stat(filepath.Join(aside[0], "x")); err != nil {
				t.Errorf("%q: %v", aside, err)
			}
			if found, _ := verify(t, mustOpen(t, w.dir), disk.Check{}); found != "" {
				t.Errorf("then: %s", found)
			}
		})
	}
}
