package lock_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/lock"
)

// below returns files with dir before their names.
func below(dir string, files map[string]string) map[string]string {
	all := map[string]string{}
	for name, text := range files {
		all[dir+"/"+name] = text
	}
	return all
}

func merge(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, m := range all {
		maps.Copy(sum, m)
	}
	return sum
}

var (
	whole  = map[string]string{"main.tf": "a", "sub/x.tf": "b", ".tool": "c", "sub/.d/e": "d"}
	copied = map[string]string{"main.tf": "a", "sub/x.tf": "b"}
	twice  = manifest(record("a", vpcSource, "1.2.0", installed+"a"), record("b", vpcSource, "1.2.0", installed+"b"))
)

func mustRead(t *testing.T, dir string) []lock.Call {
	t.Helper()
	calls, _, err := lock.Read(dir, ".terraform")
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func sumOf(t *testing.T, files map[string]string) modproxy.Sum {
	t.Helper()
	dir := install(t, "", below("x", files))
	sum, err := dirhash.HashDir(filepath.Join(dir, installed, "x"), "", dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	return modproxy.Sum(sum)
}

func TestCopies(t *testing.T) {
	changed := merge(copied, map[string]string{"main.tf": "A"})
	for name, c := range map[string]struct {
		a, b     map[string]string
		same     bool // the calls have copies of one package
		asLocked bool // and it equals the locked one
	}{
		"whole and whole":           {whole, whole, true, true},
		"whole and copied":          {whole, copied, true, true},
		"copied and whole":          {copied, whole, true, true},
		"whole and changed":         {whole, changed, false, false},
		"copied only":               {copied, copied, true, false},
		"one dot-file less":         {whole, merge(copied, map[string]string{".tool": "c"}), false, false},
		"one dot-file more":         {whole, merge(whole, map[string]string{".more": "c"}), false, false},
		"another dot-file":          {whole, merge(whole, map[string]string{".tool": "C"}), false, false},
		"git's own":                 {merge(whole, map[string]string{".git/config": "x", "sub/.GIT": "y"}), copied, true, true},
		"a directory with its name": {merge(whole, map[string]string{".gitx/config": "x"}), copied, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			calls := mustRead(t, install(t, twice, merge(below("a", c.a), below("b", c.b))))
			entries, errs := lock.Make(calls)
			if (len(errs) == 0) != c.same || c.same && len(entries) != 1 {
				t.Errorf("Make = %v, %v; want %v", entries, errs, c.same)
			}
			errs = lock.Check([]lock.Entry{{Ref: vpc.At("1.2.0"), Sum: sumOf(t, whole)}}, calls)
			if (len(errs) == 0) != c.asLocked {
				t.Errorf("Check = %v; want %v", errs, c.asLocked)
			}
			for _, err := range errs {
				if !errors.Is(err, modproxy.ErrChanged) || strings.Count(err.Error(), "h1:") != 2 || !strings.HasPrefix(err.Error(), vpc.At("1.2.0").String()+": ") {
					t.Errorf("error %q does not say what differs", err)
				}
			}
		})
	}
}

func TestCheckMissing(t *testing.T) {
	calls := mustRead(t, install(t, twice, merge(below("a", whole), below("b", copied))))
	entries, _ := lock.Make(calls)
	if errs := lock.Check(entries, calls); len(errs) != 0 {
		t.Error(errs)
	}
	if errs := lock.Check(nil, calls); len(errs) != 1 || !strings.Contains(errs[0].Error(), "not locked") {
		t.Error(errs)
	}
	if errs := lock.Check(append(entries, lock.Entry{Ref: vpc.At("2.0.0"), Sum: sumA}), calls); len(errs) != 1 || !strings.Contains(errs[0].Error(), "not installed") {
		t.Error(errs)
	}
	if errs := lock.Check(entries, nil); len(errs) != 1 {
		t.Error(errs)
	}
}

// Entries that cannot be in a package were added by someone else.
func TestLinks(t *testing.T) {
	dir := install(t, manifest(record("a", vpcSource, "1.2.0", installed+"a")), below("a", whole))
	calls := mustRead(t, dir)
	entries, errs := lock.Make(calls)
	if len(errs) != 0 {
		t.Fatal(errs)
	}
	name := filepath.Join(dir, installed, "a", "main.tf")
	if err := errors.Join(os.Rename(name, filepath.Join(dir, "main.tf")), os.Symlink(filepath.Join(dir, "main.tf"), name)); err != nil {
		t.Fatal(err)
	}
	if errs := lock.Check(entries, calls); len(errs) != 1 || !errors.Is(errs[0], modproxy.ErrInvalid) {
		t.Errorf("a link: %v", errs)
	}
	if err := errors.Join(os.RemoveAll(filepath.Dir(name)), os.Symlink(dir, filepath.Dir(name))); err != nil {
		t.Fatal(err)
	}
	if errs := lock.Check(entries, calls); len(errs) != 1 || !errors.Is(errs[0], modproxy.ErrInvalid) {
		t.Errorf("a link for the whole package: %v", errs)
	}
}

// Another directory of the same package is another module.
func TestCheckSubdir(t *testing.T) {
	dir := install(t, manifest(
		record("a", vpcSource, "1.2.0", installed+"a/modules/good"),
		record("b", vpcSource+"//x", "1.2.0", installed+"b/modules/good/x"),
	), map[string]string{"a/modules/good/x/main.tf": "", "a/modules/evil/main.tf": "", "b/modules/good/x/main.tf": "", "b/modules/evil/main.tf": ""})
	calls, _, err := lock.Read(dir, ".terraform")
	if err != nil {
		t.Fatal(err)
	}
	entries, errs := lock.Make(calls)
	if len(errs) > 0 || len(entries) != 1 || entries[0].Subdir != "modules/good" {
		t.Fatalf("%v, %v", entries, errs)
	}
	if errs := lock.Check(entries, calls); len(errs) > 0 {
		t.Error(errs)
	}
	calls[1].Subdir = "modules/evil"
	if errs := lock.Check(entries, calls); len(errs) != 1 || !errors.Is(errs[0], modproxy.ErrChanged) || !strings.Contains(errs[0].Error(), "modules/evil") {
		t.Errorf("another directory: %v", errs)
	}
	if entries, errs := lock.Make(calls); len(errs) != 1 {
		t.Errorf("two directories of one version: %v, %v", entries, errs)
	}
}
