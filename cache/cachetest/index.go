package cachetest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

var (
	vpc  = modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	when = time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
)

// record is a package record with every field set.
func record(sum modproxy.Sum) cache.PackageRecord {
	_, digest := Bytes(10, 1)
	return cache.PackageRecord{
		Digest: digest, Sum: sum, Size: 10, Subdir: "modules/ü",
		Source:  modproxy.Source{URL: "https://git.example.com/acme/vpc.git", Commit: "c0ffee"},
		Fetched: when, Dropped: when.Add(time.Hour), Removed: true,
	}
}

// Index tests an index. open gives n handles on one storage that is empty.
func Index(t *testing.T, open func(t *testing.T, n int) []cache.Index) {
	two := func(t *testing.T) (a, b cache.Index) {
		handles := open(t, 2)
		return handles[0], handles[1]
	}
	t.Run("absent", func(t *testing.T) {
		a, b := two(t)
		must(t, a.PutVersions(vpc, cache.VersionsRecord{Document: []byte("{}"), Time: when, Asked: when}))
		must(t, a.PutPackage(vpc, "1.0.0", record("h1:a")))
		for _, m := range neighbours(vpc) {
			if _, err := b.Versions(m); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Versions(%+v) = %v, want fs.ErrNotExist", m, err)
			}
			if _, err := b.Package(m, "1.0.0"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Package(%+v) = %v, want fs.ErrNotExist", m, err)
			}
			if got := versionsOf(t, b, m); got != nil {
				t.Errorf("Packages(%+v) = %v, want none", m, got)
			}
		}
		for _, version := range []string{"", "1.0.0+b", "1.0", "1.0.00"} {
			if _, err := b.Package(vpc, version); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Package(%q) = %v, want fs.ErrNotExist", version, err)
			}
		}
	})
	t.Run("versions", func(t *testing.T) {
		a, b := two(t)
		for _, rec := range []cache.VersionsRecord{
			{Document: []byte(`{"modules": ["<&>\n"]}` + "\n\n"), Dropped: 3, Time: when, Asked: when.Add(1)},
			{Time: when, Asked: when},
			{Document: []byte("\x00\xff"), Time: when.Add(-time.Hour), Asked: when.Add(time.Hour)},
		} {
			must(t, a.PutVersions(vpc, rec))
			got, err := b.Versions(vpc)
			must(t, err)
			if len(got.Document) == 0 {
				got.Document = rec.Document // empty or nil
			}
			if d := cmp.Diff(rec, got); d != "" {
				t.Error(d)
			}
		}
	})
	t.Run("values are not shared", func(t *testing.T) {
		a, b := two(t)
		document := []byte("as it was")
		must(t, a.PutVersions(vpc, cache.VersionsRecord{Document: document, Time: when, Asked: when}))
		copy(document, "changed")
		got, err := b.Versions(vpc)
		must(t, err)
		copy(got.Document, "changed")
		if got, err = b.Versions(vpc); err != nil || string(got.Document) != "as it was" {
			t.Errorf("Document = %q, %v", got.Document, err)
		}
	})
	t.Run("trim versions", func(t *testing.T) { trimVersions(t, open(t, 2)) })
	t.Run("package", func(t *testing.T) {
		a, b := two(t)
		bare := cache.PackageRecord{Sum: "h1:b"}
		must(t, a.PutPackage(vpc, "1.0.0", record("h1:a")))
		must(t, a.PutPackage(vpc, "1.0.0+b", bare))
		for version, want := range map[string]cache.PackageRecord{"1.0.0": record("h1:a"), "1.0.0+b": bare} {
			got, err := b.Package(vpc, version)
			must(t, err)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		}
	})
	t.Run("first sum wins", func(t *testing.T) {
		a, b := two(t)
		must(t, a.PutPackage(vpc, "1.0.0", record("h1:a")))
		if err := b.PutPackage(vpc, "1.0.0", record("h1:b")); !errors.Is(err, modproxy.ErrChanged) {
			t.Errorf("PutPackage of another sum = %v, want ErrChanged", err)
		}
		want := record("h1:a")
		want.Dropped = time.Time{}
		want.Size = 11
		must(t, b.PutPackage(vpc, "1.0.0", want))
		got, err := a.Package(vpc, "1.0.0")
		must(t, err)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
	t.Run("first sum wins at once", func(t *testing.T) { firstWins(t, open(t, 4)) })
	t.Run("packages", func(t *testing.T) { packages(t, open(t, 2)) })
	t.Run("packages while writing", func(t *testing.T) {
		a, b := two(t)
		const n = 260 // more than an index would read at a time
		for i := range n {
			must(t, a.PutPackage(vpc, fmt.Sprintf("1.%d.0", i), record("h1:a")))
		}
		seen := map[string]int{}
		for kept, err := range b.Packages(vpc) {
			must(t, err)
			seen[kept.Version]++
			if len(seen)%100 == 1 {
				must(t, a.PutPackage(vpc, fmt.Sprintf("2.%d.0", len(seen)), record("h1:a")))
			}
		}
		for i := range n {
			if version := fmt.Sprintf("1.%d.0", i); seen[version] != 1 {
				t.Errorf("%s was yielded %d times", version, seen[version])
			}
		}
	})
}

// neighbours are modules that are told from m only by an index that keeps the
// parts of a module apart.
func neighbours(m modproxy.Module) []modproxy.Module {
	list := []modproxy.Module{
		{Host: m.Host + m.Namespace, Name: m.Name, System: m.System},
		{Host: m.Host, Namespace: m.Namespace + m.Name, System: m.System},
		{Host: m.Host, Namespace: m.Namespace, Name: m.Name + m.System},
		{Host: m.Host, Namespace: m.Namespace, Name: m.Name, System: m.System + "1"},
		{Host: m.Host, Namespace: m.Namespace, Name: m.Name, System: m.System[:1]},
		{Host: m.Host, Namespace: "Acme", Name: m.Name, System: m.System},
		{Host: m.Host, Namespace: m.Namespace, Name: m.Name},
		{Host: m.Host},
	}
	for _, sep := range []string{"/", "\x00", ":", "\n", "\x03"} {
		list = append(list, modproxy.Module{Host: m.Host + sep + m.Namespace, Namespace: m.Name, Name: m.System},
			modproxy.Module{Host: m.Host, Namespace: m.Namespace + sep + m.Name, Name: m.System})
	}
	return list
}

func firstWins(t *testing.T, handles []cache.Index) {
	var group sync.WaitGroup
	var mu sync.Mutex
	var won []modproxy.Sum
	for i := range 16 {
		group.Go(func() {
			sum := modproxy.Sum(fmt.Sprint("h1:", i))
			err := handles[i%len(handles)].PutPackage(vpc, "1.0.0", record(sum))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, sum)
			case !errors.Is(err, modproxy.ErrChanged):
				t.Errorf("PutPackage = %v", err)
			}
		})
	}
	group.Wait()
	if len(won) != 1 {
		t.Fatalf("%d won: %v", len(won), won)
	}
	for _, handle := range handles {
		if rec, err := handle.Package(vpc, "1.0.0"); err != nil || rec.Sum != won[0] {
			t.Errorf("Package = %v, %v; %v won", rec.Sum, err, won[0])
		}
	}
}

func packages(t *testing.T, handles []cache.Index) {
	a, b := handles[0], handles[1]
	longer := vpc
	longer.System += "gov"
	versions := []string{"1.0.0", "1.0.0+b", "1.0.0-rc1", "10.0.0"} // sorted as strings
	for _, m := range []modproxy.Module{longer, vpc} {
		for _, version := range []string{"10.0.0", "1.0.0-rc1", "1.0.0", "1.0.0+b"} {
			must(t, a.PutPackage(m, version, record("h1:a")))
		}
	}
	if got := versionsOf(t, b, vpc); !slices.Equal(got, versions) {
		t.Errorf("Packages = %q, want %q", got, versions)
	}
	all := map[modproxy.Module]int{}
	for kept, err := range b.Packages(modproxy.Module{}) {
		must(t, err)
		all[kept.Module]++
	}
	if want := (map[modproxy.Module]int{vpc: 4, longer: 4}); !cmp.Equal(all, want) {
		t.Errorf("all packages: %v, want %v", all, want)
	}
	for kept, err := range b.Packages(vpc) {
		must(t, err)
		if d := cmp.Diff(cache.Kept{Module: vpc, Version: kept.Version, Record: record("h1:a")}, kept); d != "" {
			t.Error(d)
		}
		break // the iterator must bear it
	}
}

func versionsOf(t *testing.T, x cache.Index, m modproxy.Module) (versions []string) {
	t.Helper()
	for kept, err := range x.Packages(m) {
		must(t, err)
		versions = append(versions, kept.Version)
	}
	slices.Sort(versions)
	return versions
}
