package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fill makes every name that a restore may create, and a temporary file.
func fill(t *testing.T, dir string) {
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "layout.json.123.tmp"), nil, 0o600))
	for _, name := range restored {
		must(t, os.MkdirAll(filepath.Join(dir, name, "deep"), 0o700))
	}
}

func names(t *testing.T, dir string) string {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "missing"
	}
	must(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

// While a restore has not ended, no other function accepts the directory, even after the process of the restore has ended.
func TestRestore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	r, err := BeginRestore(dir)
	must(t, err)
	if _, err := BeginRestore(dir); !errors.Is(err, ErrClaimed) {
		t.Errorf("a second restore: %v", err)
	}
	if _, err := ClaimToServe(t.Context(), dir, Patience{}); !errors.Is(err, ErrClaimed) || !strings.Contains(err.Error(), "which restores a backup") {
		t.Errorf("a proxy during a restore: %v", err)
	}
	fill(t, dir)
	must(t, r.Close()) // as if the process were killed
	_, _, errConnect := Connect(t.Context(), dir)
	_, errClaim := NewClaim(dir)
	for _, err := range []error{Check(dir), Create(dir), errClaim, errConnect} {
		if err == nil || !strings.Contains(err.Error(), "has not ended") {
			t.Errorf("after an interrupted restore: %v", err)
		}
	}
	if r, err = BeginRestore(dir); err != nil {
		t.Fatalf("another restore: %v", err)
	}
	if is := names(t, dir); is != "lock restoring" {
		t.Errorf("another restore begins with %s", is)
	}
	fill(t, dir)
	must(t, r.Finish())
	mustClaim(t, dir)
	must(t, Check(dir))
}

// A restore that fails leaves the directory as it was.
func TestRestoreAbandoned(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "data")
	for _, before := range []string{"missing", "", "lock lost+found"} {
		if before != "missing" {
			must(t, os.MkdirAll(dir, 0o700))
		}
		for _, name := range strings.Fields(strings.TrimPrefix(before, "missing")) {
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		r, err := BeginRestore(dir)
		must(t, err)
		fill(t, dir)
		must(t, r.Abandon())
		want := before
		if before == "" {
			want = "lock"
		}
		if is := names(t, dir); is != want || before == "missing" && names(t, top) != "" {
			t.Errorf("before: %q; after: %q in %q", before, is, names(t, top))
		}
	}
}

// A restore does not touch a directory with other files, even one that an interrupted restore has left.
func TestRestoreNotEmpty(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ledger", "other"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("precious"), 0o600))
		var full *NotEmpty
		if _, err := BeginRestore(dir); !errors.As(err, &full) || !strings.HasSuffix(err.Error(), "it has "+name) {
			t.Errorf("a directory with %s: %v", name, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "precious" {
			t.Errorf("%s is now %q, %v", name, text, err)
		}
		must(t, os.Remove(filepath.Join(dir, name)))
	}
	r, err := BeginRestore(dir)
	must(t, err)
	must(t, r.Close())
	must(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o600))
	if _, err := BeginRestore(dir); !errors.As(err, new(*NotEmpty)) {
		t.Errorf("an interrupted restore with a file of others: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, "other")))
	victim := filepath.Join(t.TempDir(), "victim")
	fill(t, victim)
	must(t, os.Symlink(victim, filepath.Join(dir, "blobs")))
	if r, err := BeginRestore(dir); err == nil {
		r.Close()
		t.Error("a link was followed")
	}
	if names(t, victim) == "" {
		t.Error("the target of a link was emptied")
	}
}
