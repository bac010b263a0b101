package static_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/static"
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func open(t *testing.T, dir string) *static.Site {
	t.Helper()
	s, err := static.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func digest(content string) modproxy.Digest { return sha256.Sum256([]byte(content)) }

func finish(t *testing.T, s *static.Site, want int) {
	t.Helper()
	if held, err := s.Finish(""); err != nil || held.Versions != want {
		t.Errorf("Finish: %+v, %v; want %d", held, err, want)
	}
}

func read(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Stored packages are found when the site is opened again, are not read twice, and are repaired if they were damaged.
func TestAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a [dir]")
	s := open(t, dir)
	for _, version := range []string{"1.10.0", "1.9.0", "1.0.0+build"} {
		var content *strings.Reader // of one package, which is sent once
		if version == "1.10.0" {
			content = strings.NewReader("one")
		}
		if err := s.Add(vpc.At(version), "", digest("one"), content); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, s, 3)
	at := filepath.Join(dir, "registry.example.com/v1/modules/acme/vpc/aws")
	if got := read(t, at, "versions"); got != `{"modules":[{"versions":[{"version":"1.0.0+build"},{"version":"1.9.0"},{"version":"1.10.0"}]}]}`+"\n" {
		t.Errorf("versions: %s", got)
	}
	if got := read(t, at, "1.0.0+build/package.tar.gz"); got != "one" {
		t.Errorf("package: %q", got)
	}
	if s = open(t, dir); len(s.Has()) != 1 || s.Has()[0] != digest("one") {
		t.Errorf("it has %v", s.Has())
	}
	if err := os.WriteFile(filepath.Join(at, "1.9.0/package.tar.gz"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if err := s.Add(vpc.At("1.9.0"), "", digest("one"), nil); err != nil || read(t, at, "1.9.0/package.tar.gz") != "one" {
		t.Errorf("a damaged package: %v", err)
	}
	finish(t, s, 3)
}

// Content with another digest, and names with a meaning for a web server, are refused.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Add(vpc.At("1.0.0"), "", digest("one"), strings.NewReader("two")); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("another package: %v", err)
	}
	other := vpc
	other.Host = ".."
	for what, add := range map[string]struct {
		v      modproxy.Ref
		subdir string
	}{
		"a version that is none": {vpc.At("../1.0.0"), ""},
		"a version as spelled":   {vpc.At("v1.0.0"), ""},
		"a host above":           {other.At("1.0.0"), ""},
		"no name":                {modproxy.Address{Host: "example.com"}.At("1.0.0"), ""},
		"a variable of nginx":    {vpc.At("1.0.0"), "a/$host"},
		"a quote":                {vpc.At("1.0.0"), `a"; return 200`},
		"a line":                 {vpc.At("1.0.0"), "a\nb"},
		"a directory above":      {vpc.At("1.0.0"), "../a"},
		"a query":                {vpc.At("1.0.0"), "a?b"},
	} {
		if err := s.Add(add.v, add.subdir, digest("one"), strings.NewReader("one")); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	finish(t, s, 0)
	if found, _ := filepath.Glob(filepath.Join(dir, "*/v1/modules/*/*/*/*/*")); len(found) > 0 {
		t.Errorf("there are %v", found)
	}
	for _, bad := range []string{"a\nb", "a$b", `a"b`} {
		if _, err := open(t, filepath.Join(dir, bad)).Finish(""); err == nil {
			t.Errorf("a site in %q is no error", bad)
		}
	}
}
