package disk_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
)

// sumOf names content by its bytes; what begins with a zero is no package.
func sumOf(r io.Reader) (modproxy.Sum, error) {
	data, err := io.ReadAll(r)
	if err == nil && len(data) > 0 && data[0] == 0 {
		err = modproxy.ErrInvalid
	}
	return modproxy.Sum(fmt.Sprintf("h1:%x", sha256.Sum256(append([]byte("x"), data...)))), err
}

// verify is what Verify finds, as "kind version" in one line each.
func verify(t *testing.T, s *disk.Store, c disk.Check) (string, disk.Verified) {
	t.Helper()
	var found []string
	c.Found = func(d disk.Damage) {
		line := string(d.Kind) + " " + d.Version
		if d.Repaired {
			line += " repaired"
		}
		if d.Text == "" {
			t.Errorf("%s says nothing", line)
		}
		found = append(found, line)
	}
	out, err := s.Verify(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, "\n"), out
}

// world is a directory with three packages of which the last two have the same
// bytes, and the paths of what belongs to the first.
type world struct {
	dir, blob, sidecar string
	records            map[string]cache.PackageRecord
}

func newWorld(t *testing.T) world {
	w := world{dir: t.TempDir(), records: map[string]cache.PackageRecord{}}
	s := mustOpen(t, w.dir)
	for version, content := range map[string]string{"1.0.0": "first", "2.0.0": "same", "2.0.0+b": "same"} {
		sum, err := sumOf(strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		rec := cache.PackageRecord{Digest: sha256.Sum256([]byte(content)), Sum: sum, Size: int64(len(content)), Fetched: when}
		if err := errors.Join(s.Put(t.Context(), rec.Digest, strings.NewReader(content)), s.PutPackage(vpc, version, rec)); err != nil {
			t.Fatal(err)
		}
		w.records[version] = rec
	}
	if err := errors.Join(s.PutVersions(vpc, cache.VersionsRecord{Document: []byte("{}"), Time: when, Asked: when}), s.Close()); err != nil {
		t.Fatal(err)
	}
	digest := w.records["1.0.0"].Digest.String()
	w.blob = filepath.Join(w.dir, "blobs/v1/sha256", digest[:2], digest)
	w.sidecar = filepath.Join(w.dir, "packages/v1", sidecar[:2], sidecar+".meta")
	return w
}

// edit changes what a bucket has under the first key that begins as prefix says.
func (w world) edit(t *testing.T, bucket string, f func(b *bbolt.Bucket, k, v []byte) error) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(w.dir, "index.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		k, v := b.Cursor().First()
		return f(b, bytes.Clone(k), bytes.Clone(v))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func rewrite(name, text string) error {
	return errors.Join(os.Remove(name), os.WriteFile(name, []byte(text), 0o400))
}

func TestVerify(t *testing.T) {
	flip := func(b *bbolt.Bucket, k, v []byte) error { v[100] ^= 1; return b.Put(k, v) }
	for name, c := range map[string]struct {
		damage func(t *testing.T, w world) error
		data   bool
		want   string // what is found, but for " repaired"
		keeps  bool   // repairing does not help
	}{
		"nothing":          {func(*testing.T, world) error { return nil }, true, "", false},
		"record damaged":   {func(t *testing.T, w world) error { w.edit(t, "v1/packages", flip); return nil }, false, "record_damaged 1.0.0", false},
		"list damaged":     {func(t *testing.T, w world) error { w.edit(t, "v1/versions", flip); return nil }, false, "list_damaged ", true},
		"copy missing":     {func(_ *testing.T, w world) error { return os.Remove(w.sidecar) }, false, "copy_missing 1.0.0", false},
		"copy damaged":     {func(_ *testing.T, w world) error { return overwrite(w.sidecar, 99, "xx") }, false, "copy_damaged 1.0.0", false},
		"package missing":  {func(_ *testing.T, w world) error { return os.Remove(w.blob) }, false, "package_missing 1.0.0", false},
		"package cut":      {func(_ *testing.T, w world) error { return rewrite(w.blob, "firs") }, false, "package_damaged 1.0.0", false},
		"package flipped":  {func(_ *testing.T, w world) error { return rewrite(w.blob, "fjrst") }, true, "package_damaged 1.0.0", false},
		"package unseen":   {func(_ *testing.T, w world) error { return rewrite(w.blob, "fjrst") }, false, "", false},
		"package replaced": {func(_ *testing.T, w world) error { return errors.Join(os.Remove(w.blob), os.Mkdir(w.blob, 0o700)) }, false, "package_damaged 1.0.0", false},
		"record missing": {func(t *testing.T, w world) error {
			w.edit(t, "v1/packages", func(b *bbolt.Bucket, k, _ []byte) error { return b.Delete(k) })
			return nil
		}, false, "record_missing 1.0.0", false},
		"orphan copy damaged": {func(_ *testing.T, w world) error {
			other := strings.Repeat("0", 64)
			dir := filepath.Join(w.dir, "packages/v1/00")
			return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, other+".meta"), nil, 0o600))
		}, false, "copy_damaged ", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := c.damage(t, w); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, w.dir)
			check := disk.Check{Data: c.data, Sum: sumOf}
			for range 2 { // it changes nothing
				if got, out := verify(t, s, check); got != c.want || out.Total != 3 {
					t.Errorf("found %q, want %q; %+v", got, c.want, out)
				}
			}
			check.Repair = true
			repaired := c.want
			if c.want != "" && name != "list damaged" {
				repaired += " repaired"
			}
			if got, _ := verify(t, s, check); got != repaired {
				t.Errorf("repair: %q, want %q", got, repaired)
			}
			if c.keeps {
				return
			}
			if got, _ := verify(t, s, check); got != "" {
				t.Errorf("after the repair: %q", got)
			}
			for version, want := range w.records {
				if rec, err := s.Package(vpc, version); rec != want || err != nil {
					t.Errorf("%s: %+v, %v", version, rec, err)
				}
			}
		})
	}
}

// What was evicted, and what a crash left, is no damage; what others say is.
func TestVerifyCounts(t *testing.T) {
	w := newWorld(t)
	s := mustOpen(t, w.dir)
	if err := errors.Join(
		s.PutUses([]cache.Use{{Digest: w.records["1.0.0"].Digest, Last: when, Evicted: true}}),
		s.Remove(w.records["1.0.0"].Digest),
		s.Put(t.Context(), sha256.Sum256([]byte("orphan")), strings.NewReader("orphan")),
	); err != nil {
		t.Fatal(err)
	}
	pins := map[string]modproxy.Sum{"1.0.0": w.records["1.0.0"].Sum, "2.0.0": "h1:other"}
	progress := 0
	found, out := verify(t, s, disk.Check{Data: true, Sum: sumOf, Progress: func(disk.Verified) { progress++ },
		Pinned: func(m modproxy.Module, version string) (modproxy.Sum, error) {
			sum, ok := pins[version]
			if !ok {
				return "", fs.ErrNotExist
			}
			return sum, nil
		}})
	if found != "pin_differs 2.0.0\npin_differs 2.0.0+b" {
		t.Errorf("found %q", found)
	}
	if out.Records != 3 || out.Packages != (cache.Removed{Packages: 1, Bytes: 4}) || out.Read != 4 || out.Evicted != 1 ||
		out.Orphans != (cache.Removed{Packages: 1, Bytes: 6}) || out.Damage != 2 || progress == 0 {
		t.Errorf("%+v, %d reports", out, progress)
	}
}

// A record that says something else of bytes that are right is found by reading.
func TestVerifyContent(t *testing.T) {
	w := newWorld(t)
	s := mustOpen(t, w.dir)
	for version, c := range map[string]struct {
		content string
		sum     modproxy.Sum
	}{"3.0.0": {"other", "h1:wrong"}, "4.0.0": {"\x00", "h1:wrong"}, "5.0.0": {"same", "h1:wrong"}} {
		rec := cache.PackageRecord{Digest: sha256.Sum256([]byte(c.content)), Sum: c.sum, Size: int64(len(c.content))}
		if err := errors.Join(s.Put(t.Context(), rec.Digest, strings.NewReader(c.content)), s.PutPackage(vpc, version, rec)); err != nil {
			t.Fatal(err)
		}
	}
	found, _ := verify(t, s, disk.Check{Data: true, Sum: sumOf})
	for _, want := range []string{"package_damaged 3.0.0", "package_damaged 4.0.0", "package_damaged 5.0.0"} {
		if !strings.Contains(found, want) || strings.Count(found, "\n") != 2 {
			t.Errorf("found %q, want %q in it", found, want)
		}
	}
}
