package app

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

var vpc = modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustOpenBook(t *testing.T, dir string) *ledger.Log {
	t.Helper()
	book, err := ledger.Open(dir)
	must(t, err)
	t.Cleanup(func() { book.Close() })
	return book
}

func mustOpenStore(t *testing.T, dir string) *disk.Store {
	t.Helper()
	store, err := disk.Open(dir)
	must(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}

func packageOf(seed string) cache.PackageRecord {
	return cache.PackageRecord{Digest: modproxy.Digest{1}, Sum: ledgertest.Sum(seed), Size: 1, Subdir: "modules/ü", Fetched: time.Unix(1e9, 0).UTC()}
}

func TestHeldIndex(t *testing.T) {
	dir := t.TempDir()
	disagreed, behind := 0, 0
	x := &heldIndex{
		store: mustOpenStore(t, dir), book: mustOpenBook(t, filepath.Join(dir, "ledger")),
		disagrees: func(modproxy.Module, string, error) { disagreed++ },
		behind:    func(modproxy.Module, string) { behind++ },
	}
	must(t, x.book.Add(t.Context(), ledgertest.NewRecord(vpc, "1.0.0", "a")))
	must(t, x.PutPackage(vpc, "1.0.0", packageOf("a")))
	if rec, err := x.Package(vpc, "1.0.0"); err != nil || rec != packageOf("a") {
		t.Fatalf("Package = %v, %v", rec, err)
	}
	if err := x.PutPackage(vpc, "1.0.0", packageOf("b")); !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("PutPackage of what is not recorded = %v, want ErrChanged", err)
	}
	// In the index somebody may have named another directory.
	evil := packageOf("a")
	evil.Subdir = "examples/evil"
	must(t, x.store.PutPackage(vpc, "1.0.0", evil))
	if rec, err := x.Package(vpc, "1.0.0"); !errors.Is(err, fs.ErrNotExist) || disagreed != 1 {
		t.Errorf("Package of another directory = %v, %v; told %d times", rec, err, disagreed)
	}
	must(t, x.PutPackage(vpc, "1.0.0", packageOf("a")))
	// What is kept and not recorded is recorded, and told.
	must(t, x.store.PutPackage(vpc, "2.0.0", packageOf("c")))
	if _, err := x.Package(vpc, "2.0.0"); err != nil {
		t.Error(err)
	}
	if r, err := x.book.Lookup(t.Context(), vpc.At("2.0.0")); err != nil || r.Sum != ledgertest.Sum("c") || !r.Time.Equal(time.Unix(1e9, 0)) || behind != 1 {
		t.Errorf("recorded %v, %v; told %d times", r, err, behind)
	}
	// What is kept and does not count is not there.
	must(t, x.book.Accept(t.Context(), ledger.Record{ModuleVersion: vpc.At("1.0.0"), Sum: ledgertest.Sum("b"), Time: time.Now(), Reason: "announced"}))
	if _, err := x.Package(vpc, "1.0.0"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("Package of what does not count = %v, want fs.ErrNotExist", err)
	}
	var kept []string
	for k, err := range x.Packages(vpc) {
		must(t, err)
		kept = append(kept, k.Version)
	}
	if len(kept) != 1 || kept[0] != "2.0.0" || disagreed != 3 {
		t.Errorf("kept %v, disagreed %d times", kept, disagreed)
	}
	must(t, x.PutPackage(vpc, "1.0.0", packageOf("b")))
	if rec, err := x.Package(vpc, "1.0.0"); err != nil || rec != packageOf("b") {
		t.Errorf("Package = %v, %v", rec, err)
	}
}

// Who is asked who they are is shown what they may read.
func TestMayLookUp(t *testing.T) {
	scope, err := auth.ParseScope("registry.example.com/acme")
	must(t, err)
	acme := auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: []auth.Scope{scope}}}
	for path, want := range map[string]bool{
		"/latest":              true,
		"/tile/8/0/000.p/3":    true,
		"/tile/8/data/000.p/3": false,
		"/lookup/registry.example.com/acme/vpc/aws@v1.0.0":    true,
		"/lookup/registry.example.com/other/vpc/aws@v1.0.0":   false,
		"/lookup/registry.example.com/acme/!v!p!c/aws@v1.0.0": true,
		"/lookup/nonsense": false,
	} {
		if err := mayLookUp(acme, path); (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		admin := auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Admin: true}}
		if err := errors.Join(mayLookUp(admin, path), mayLookUp(auth.Principal{}, path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
