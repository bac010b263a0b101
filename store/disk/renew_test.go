package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// For an old index in any state, Renew makes a new one with the records that could be read.
func TestRenew(t *testing.T) {
	for name, c := range map[string]struct {
		damage  func(index string) error
		problem string
		kept    int
		aside   bool
	}{
		"sound":   {func(string) error { return nil }, "", 2, true},
		"missing": {os.Remove, "the index is missing", 0, false},
		"empty":   {func(index string) error { return os.Truncate(index, 0) }, "the index is empty", 0, true},
		"cut":     {func(index string) error { return os.Truncate(index, 4096) }, "the index is damaged", 0, true},
		"zeros":   {func(index string) error { return overwrite(index, 0, strings.Repeat("\x00", 8192)) }, "the index is damaged", 0, true},
		"pages": {func(index string) error {
			return overwrite(index, 8192, strings.Repeat("\xff", 6*4096))
		}, "the index is damaged", 0, true},
		"directory": {func(index string) error {
			return errors.Join(os.Remove(index), os.Mkdir(index, 0o700))
		}, "the index", 0, true},
		"layout": {func(index string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(index), "layout.json"), []byte("{"), 0o600)
		}, "layout.json", 2, true},
		"layout, and no quarantine": {func(index string) error {
			dir := filepath.Dir(index)
			return errors.Join(os.Remove(filepath.Join(dir, "quarantine")), os.WriteFile(filepath.Join(dir, "layout.json"), []byte("{"), 0o600))
		}, "layout.json", 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			digest := fill(t, dir)
			index := filepath.Join(dir, "index.db")
			must(t, c.damage(index))
			r, err := disk.Renew(t.Context(), dir)
			must(t, err)
			if all(r.Kept) != c.kept || !strings.Contains(r.Problem, c.problem) || (c.problem == "") != (r.Problem == "") {
				t.Errorf("%v records, problem %q", r.Kept, r.Problem)
			}
			if strings.Contains(r.Problem, "the index is") && strings.Contains(r.Problem, "rebuild") {
				t.Errorf("problem %q", r.Problem)
			}
			if c.kept == 0 {
				_, err = r.Records().Put(t.Context(), store.Record{Ref: packageRef, Value: []byte("h1:a"), Needs: []modproxy.Digest{digest}})
				must(t, err)
			}
			aside, err := r.Finish()
			must(t, err)
			if !r.Flushes() {
				t.Error("what is kept from now on is not flushed")
			}
			must(t, r.Close())
			if _, err := os.Lstat(aside); (err == nil) != c.aside {
				t.Errorf("set aside as %q: %v", aside, err)
			}
			d := mustOpen(t, dir)
			if c.kept > 0 {
				holds(t, d, digest)
			} else if list, err := d.Records().Needing(t.Context(), digest); len(list) != 1 || err != nil {
				t.Errorf("Needing = %v, %v", list, err)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "tmp")); len(left) > 0 || err != nil {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

func all(kept map[store.Kind]int) (n int) {
	for _, of := range kept {
		n += of
	}
	return n
}

// A record whose blob is missing is not recovered.
func TestRenewWithoutBlob(t *testing.T) {
	dir := t.TempDir()
	digest := fill(t, dir)
	d := mustOpen(t, dir)
	must(t, os.Remove(blobName(d, digest)), d.Close())
	r, err := disk.Renew(t.Context(), dir)
	must(t, err)
	defer r.Close()
	if _, err := r.Records().Get(t.Context(), packageRef); !errors.Is(err, fs.ErrNotExist) || all(r.Kept) != 1 {
		t.Errorf("%v, %v records", err, r.Kept)
	}
}

// Revisions continue in the new index.
func TestRenewRevisions(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	d := mustOpen(t, dir)
	old := revisionOf(t, d, listRef)
	must(t, d.Close())
	r, err := disk.Renew(t.Context(), dir)
	must(t, err)
	if is := revisionOf(t, r.Directory, listRef); is <= old {
		t.Errorf("revision %d, and %d before", is, old)
	}
	must(t, r.Close())
}

// Damage of one kind of records does not affect the others. Damaged records are left out.
func TestRenewTakesWhatIsWhole(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	for i := range 500 {
		for _, kind := range []store.Kind{"a", "b"} {
			_, err := d.Records().Put(t.Context(), store.Record{Ref: store.Ref{Kind: kind, Key: fmt.Sprint(i)}, Value: fmt.Append(nil, kind, " value ", i)})
			must(t, err)
		}
	}
	d.Damage(t, store.Ref{Kind: "b", Key: "250"})
	must(t, d.Close())
	r, err := disk.Renew(t.Context(), dir)
	must(t, err)
	defer r.Close()
	if all(r.Kept) != 999 || r.Damaged != 1 || !strings.Contains(r.Problem, `the first one is b "250"`) {
		t.Errorf("%v were kept, %d are damaged, problem %q", r.Kept, r.Damaged, r.Problem)
	}
}

// Without a call of Finish, the old index stays.
func TestRenewEnds(t *testing.T) {
	dir := t.TempDir()
	digest := fill(t, dir)
	r, err := disk.Renew(t.Context(), dir)
	must(t, err, r.Close(), r.Close())
	d := mustOpen(t, dir)
	holds(t, d, digest)
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); len(left) > 0 || err != nil {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestRenewRefuses(t *testing.T) {
	t.Parallel() // the test waits for the lock
	dir := t.TempDir()
	mustOpen(t, dir)
	if r, err := disk.Renew(t.Context(), dir); err == nil {
		r.Close()
		t.Error("it is open")
	} else if !strings.Contains(err.Error(), "another modproxy process has it open") {
		t.Error(err)
	}
	newer := t.TempDir()
	must(t, os.WriteFile(filepath.Join(newer, "layout.json"), []byte(`{"layout": 2}`), 0o600))
	if _, err := disk.Renew(t.Context(), newer); err == nil || !strings.Contains(err.Error(), "layouts up to 1") {
		t.Error(err)
	}
}
