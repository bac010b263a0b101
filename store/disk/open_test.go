package disk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

var (
	packageRef = store.Ref{Kind: "module-package", Key: "registry.example.com/acme/vpc/aws/1.0.0"}
	listRef    = store.Ref{Kind: "module-versions", Key: "registry.example.com/acme/vpc/aws"}
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// put stores a blob of 1000 bytes, a record that needs it, and a record without needs.
func put(t testing.TB, d *disk.Directory) modproxy.Digest {
	t.Helper()
	data, digest := storetest.Bytes(1000, 1)
	err := d.Blobs().Put(t.Context(), digest, bytes.NewReader(data))
	_, errPackage := d.Records().Put(t.Context(), store.Record{Ref: packageRef, Value: []byte("h1:a"), Needs: []modproxy.Digest{digest}})
	_, errList := d.Records().Put(t.Context(), store.Record{Ref: listRef, Value: []byte("{}")})
	must(t, err, errPackage, errList)
	return digest
}

// fill opens a directory, calls put, and closes the directory.
func fill(t testing.TB, dir string) modproxy.Digest {
	t.Helper()
	d := mustOpen(t, dir)
	digest := put(t, d)
	must(t, d.Close())
	return digest
}

// holds compares the stored data with the data of put.
func holds(t testing.TB, d *disk.Directory, digest modproxy.Digest) {
	t.Helper()
	r, err := d.Records().Get(t.Context(), packageRef)
	if err != nil || string(r.Value) != "h1:a" || len(r.Needs) != 1 || r.Needs[0] != digest {
		t.Errorf("Get = %+v, %v", r, err)
	}
	if r, err := d.Records().Get(t.Context(), listRef); err != nil || string(r.Value) != "{}" {
		t.Errorf("Get = %+v, %v", r, err)
	}
	blob, err := d.Blobs().Open(t.Context(), digest)
	must(t, err)
	defer blob.Close()
	if data, err := io.ReadAll(blob); len(data) != 1000 || err != nil {
		t.Errorf("the blob has %d bytes, %v", len(data), err)
	}
}

// changes returns the errors of all methods that change something.
func changes(t testing.TB, d *disk.Directory, digest modproxy.Digest) map[string]error {
	data, other := storetest.Bytes(1000, 2)
	_, errPut := d.Records().Put(t.Context(), store.Record{Ref: store.Ref{Kind: "a", Key: "b"}})
	_, errRemove := d.Blobs().Remove(t.Context(), store.Evict, digest)
	_, errPurge := d.Purge(t.Context(), 0)
	return map[string]error{
		"Put of a record": errPut, "Remove": errRemove, "Purge": errPurge,
		"Delete":        d.Records().Delete(t.Context(), listRef, 1),
		"Put of a blob": d.Blobs().Put(t.Context(), other, bytes.NewReader(data)),
		"Touch":         d.Blobs().Touch(t.Context(), map[modproxy.Digest]time.Time{digest: time.Now()}),
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir)
	for range 2 {
		d := mustOpen(t, dir)
		holds(t, d, want)
		must(t, d.Close(), d.Close())
		for what, err := range changes(t, d, want) {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	cut := func(n int64) func(string) error {
		return func(index string) error { return os.Truncate(index, n) }
	}
	layout := func(text string) func(string) error {
		return func(index string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(index), "layout.json"), []byte(text), 0o600)
		}
	}
	for name, c := range map[string]struct {
		damage func(index string) error
		want   string
	}{
		"missing":   {os.Remove, "is missing: "},
		"no bytes":  {cut(0), "is empty"},
		"one page":  {cut(4096), "is damaged"},
		"a byte":    {cut(16<<10 - 1), "is damaged"},
		"two bytes": {cut(2), "is damaged"},
		"text":      {func(index string) error { return os.WriteFile(index, make([]byte, 99_999), 0o600) }, "is damaged"},
		"both metas": {func(index string) error {
			return errors.Join(overwrite(index, 16+8, "xxxx"), overwrite(index, 4096+16+8, "xxxx"))
		}, "is damaged"},
		"zero page": {func(index string) error {
			return overwrite(index, 2*4096, string(make([]byte, 6*4096)))
		}, "index"},
		"no blobs": {func(index string) error {
			return errors.Join(os.Remove(index), os.RemoveAll(filepath.Join(filepath.Dir(index), "blobs")))
		}, "is missing: "},
		"newer layout": {layout(`{"layout": 2}`), "layout 2, and this modproxy knows layouts up to 1"},
		"no layout":    {layout(""), "layout.json"},
		"flipped name": {layout(`{"lay/ut": 1}`), "it names no layout"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir)
			must(t, c.damage(filepath.Join(dir, "index.db")))
			d, err := disk.Open(t.Context(), dir)
			if err == nil {
				d.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if remedied := strings.Contains(err.Error(), "modproxy rebuild"); remedied != (name != "newer layout") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Opening a directory finds a page that bbolt cannot interpret, before its content is requested.
func TestOpenReadsEveryPage(t *testing.T) {
	dir := t.TempDir()
	d, err := disk.Open(t.Context(), dir)
	must(t, err)
	for i := range 60 {
		ref := store.Ref{Kind: "k", Key: fmt.Sprintf("key-%02d", i)}
		_, err := d.Records().Put(t.Context(), store.Record{Ref: ref, Value: bytes.Repeat([]byte("v"), 200)})
		must(t, err)
	}
	must(t, d.Close())
	name := filepath.Join(dir, "index.db")
	index, err := os.ReadFile(name)
	must(t, err)
	for page := range slices.Chunk(index, os.Getpagesize()) { // some pages are free
		if bytes.Contains(page, []byte("key-59")) {
			clear(page)
		}
	}
	must(t, os.WriteFile(name, index, 0o600))
	for what, options := range map[string]disk.Options{"to write": {}, "to read": {ReadOnly: true}} {
		if d, err := disk.OpenWith(t.Context(), dir, options); err == nil || !strings.Contains(err.Error(), "modproxy rebuild") {
			t.Errorf("%s = %v, %v; want what to do", what, d, err)
		}
	}
}

// An index without buckets was created by a process that was killed at its first start. Beside stored data it is
// damaged.
func TestOpenIndexWithoutBuckets(t *testing.T) {
	for _, kept := range []bool{false, true} {
		dir := t.TempDir()
		if kept {
			fill(t, dir)
			must(t, os.Remove(filepath.Join(dir, "index.db")))
		}
		edit(t, dir, func(*bbolt.Tx) error { return nil })
		d, err := disk.Open(t.Context(), dir)
		if !kept {
			must(t, err)
			put(t, d)
			must(t, d.Close())
		} else if err == nil || !strings.Contains(err.Error(), `is empty: "modproxy rebuild"`) {
			t.Errorf("Open = %v", err)
		}
	}
}

// An index whose pages form a cycle is refused. Records that the cycle does not hide are recovered.
func TestOpenRefusesCircles(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	var records []func() error
	for i := range 200 {
		records = append(records, putting(t, d, fmt.Sprintf("%s-%03d", strings.Repeat("k", 100), i), 0))
	}
	for _, put := range records {
		must(t, put())
	}
	must(t, d.Close())
	name := filepath.Join(dir, "index.db")
	index, err := os.ReadFile(name)
	must(t, err)
	circles := 0
	for at, size := 2*os.Getpagesize(), os.Getpagesize(); at < len(index); at += size {
		if binary.NativeEndian.Uint16(index[at+8:]) == 1 { // a branch page: internal/common/page.go of bbolt
			binary.NativeEndian.PutUint64(index[at+16+16+8:], uint64(at/size))
			circles++
		}
	}
	must(t, os.WriteFile(name, index, 0o600))
	for _, options := range []disk.Options{{}, {ReadOnly: true}, {Damaged: true}} {
		if _, err := disk.OpenWith(t.Context(), dir, options); err == nil || !strings.Contains(err.Error(), `"modproxy rebuild"`) {
			t.Errorf("%+v: Open = %v", options, err)
		}
	}
	r, err := disk.Renew(t.Context(), dir)
	must(t, err)
	if n := all(r.Kept); circles == 0 || n < 100 || n >= 200 || r.Problem == "" {
		t.Errorf("%d circles: %d records, problem %q", circles, n, r.Problem)
	}
	_, err = r.Finish()
	must(t, err, r.Close())
	mustOpen(t, dir)
}

func overwrite(name string, at int64, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), at)
	return errors.Join(err, f.Close())
}

func TestOpenTwice(t *testing.T) {
	for name, options := range map[string]disk.Options{"to write": {}, "to read": {ReadOnly: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the test waits for the lock
			dir := t.TempDir()
			mustOpen(t, dir)
			d, err := disk.OpenWith(t.Context(), dir, options)
			if err == nil {
				d.Close()
				t.Fatal("it was opened twice")
			}
			if !strings.Contains(err.Error(), "another modproxy process has it open") || !strings.Contains(err.Error(), "index.db") {
				t.Error(err)
			}
		})
	}
}

func TestOpenCleansWhatIsItsOwn(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	ours, theirs := filepath.Join(dir, "tmp", "modproxy.123.tmp"), filepath.Join(dir, "tmp", "notes.tmp")
	must(t, os.WriteFile(ours, nil, 0o600), os.WriteFile(theirs, nil, 0o600))
	mustOpen(t, dir)
	if _, err := os.Stat(ours); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ours: %v", err)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Errorf("theirs: %v", err)
	}
}

// After a change of any single byte of the index, Open refuses it and names a remedy, or all data is unchanged.
// Readable records are recovered into a new index.
func TestIndexDamage(t *testing.T) {
	dir := t.TempDir()
	digest := fill(t, dir)
	name := filepath.Join(dir, "index.db")
	whole, err := os.ReadFile(name)
	must(t, err)
	refused, taken := 0, 0
	for at := range whole {
		if whole[at] == 0 && at%64 != 0 || whole[at] != 0 && at%5 != 0 {
			continue // testing every byte takes too long
		}
		flipped := bytes.Clone(whole)
		flipped[at] ^= 4
		must(t, os.WriteFile(name, flipped, 0o600))
		if d, err := disk.Open(t.Context(), dir); err == nil {
			holds(t, d, digest)
			n := 0
			for r, err := range d.Records().List(t.Context(), "", "") {
				must(t, err)
				if r.Key != packageRef.Key && r.Key != listRef.Key {
					t.Errorf("byte %d: %v", at, r.Ref)
				}
				n++
			}
			if needing, err := d.Records().Needing(t.Context(), digest); n != 2 || len(needing) != 1 || err != nil {
				t.Errorf("byte %d: %d records, needing %v, %v", at, n, needing, err)
			}
			must(t, d.Close())
			continue
		} else if !strings.Contains(err.Error(), `"modproxy rebuild"`) && !strings.Contains(err.Error(), `"modproxy verify --read-data --repair"`) {
			t.Errorf("byte %d: %v", at, err)
		}
		refused++
		r, err := disk.Renew(t.Context(), dir)
		must(t, err)
		if r.Problem == "" {
			t.Errorf("byte %d: Renew says no problem", at)
		}
		taken += all(r.Kept)
		must(t, r.Close())
	}
	if refused == 0 || taken < refused {
		t.Errorf("%d refused, %d records taken over from them", refused, taken)
	}
	t.Logf("%d refused, %d of %d records taken over from them", refused, taken, 2*refused)
}

// Files are named by digests, and read-only if they never change.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	digest := fill(t, dir)
	d := mustOpen(t, dir)
	_, err := d.Blobs().Remove(t.Context(), store.ToQuarantine, digest)
	must(t, err)
	again := func() error {
		data, _ := storetest.Bytes(1000, 1)
		return d.Blobs().Put(t.Context(), digest, bytes.NewReader(data))
	}
	must(t, again())
	var names []string
	must(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			info, _ := entry.Info()
			name, _ = filepath.Rel(dir, name)
			names = append(names, info.Mode().String()+" "+name)
		}
		return err
	}))
	hex := digest.String()
	want := []string{
		"-r--r--r-- blobs/v1/sha256/" + hex[:2] + "/" + hex,
		"-rw------- index.db",
		"-rw------- layout.json",
		"-r--r--r-- quarantine/" + hex + ".",
	}
	for i, name := range names {
		if i >= len(want) || !strings.HasPrefix(name, want[i]) {
			t.Errorf("%s\nwant\n%s", strings.Join(names, "\n"), strings.Join(want, "\n"))
			break
		}
	}
}

func TestWhatIsNoBlob(t *testing.T) {
	for name, replace := range map[string]func(name string) error{
		"directory": func(name string) error { return os.MkdirAll(filepath.Join(name, "more"), 0o700) },
		"link":      func(name string) error { return os.Symlink("/etc/passwd", name) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range []store.Removal{store.ToQuarantine, store.Evict} {
				dir := t.TempDir()
				digest := fill(t, dir)
				d := mustOpen(t, dir)
				name := blobName(d, digest)
				must(t, os.Remove(name), replace(name))
				_, errOpen := d.Blobs().Open(t.Context(), digest)
				_, errStat := d.Blobs().Stat(t.Context(), digest)
				errPut := d.Blobs().Put(t.Context(), digest, io.MultiReader())
				for _, err := range []error{errOpen, errStat, errPut} {
					if !errors.Is(err, store.ErrDamaged) {
						t.Errorf("%v, want ErrDamaged", err)
					}
				}
				removed, err := d.Blobs().Remove(t.Context(), how, digest)
				if len(removed) != 1 || err != nil {
					t.Errorf("Remove = %v, %v", removed, err)
				}
				r, err := d.Records().Get(t.Context(), listRef)
				must(t, err, d.Records().Delete(t.Context(), listRef, r.Revision))
				put(t, d)
				holds(t, d, digest)
			}
		})
	}
}
