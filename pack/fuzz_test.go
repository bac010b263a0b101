package pack_test

import (
	"bytes"
	"compress/gzip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/pack"
)

// FuzzName checks that an accepted name is harmless wherever it is unpacked.
func FuzzName(f *testing.F) {
	for _, name := range []string{"main.tf", "../x", "/x", "a//b", "C:x", "a\\b", ".git", ".GIT/x", "git~1", ".g\u200dit", "\xff", "a\x00", "é/世界", "a:b", "...", "~"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		b, err := build(t, pack.Limits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b.File("other/file", false, strings.NewReader("1")) != nil || b.File(name, false, strings.NewReader("2")) != nil {
			return
		}
		var out bytes.Buffer
		if _, err := b.Pack(&out, ""); err != nil {
			return
		}
		entries := listing(t, out.Bytes())
		if !slices.Contains(entries, "f "+name+" 2") {
			if len(entries) != 1 || !strings.Contains(strings.ToLower(name), ".git") {
				t.Fatalf("%q is not in %q", name, entries)
			}
			return
		}
		parts := strings.Split(name, "/")
		if !filepath.IsLocal(name) || filepath.Clean(name) != name || strings.ContainsAny(name, "\x00\n\r\x1b\\") {
			t.Errorf("%q was accepted", name)
		}
		for _, p := range parts {
			if strings.EqualFold(strings.TrimRight(p, ". "), ".git") || len(p) > 255 {
				t.Errorf("%q was accepted", name)
			}
		}
	})
}

// FuzzBuilder checks that entries in any order make a package in the form, or an error.
func FuzzBuilder(f *testing.F) {
	f.Add(strings.Join(module, "\n"), "")
	f.Add("f w/a 1\nl w/b a\nh c w/a", "*")
	f.Add("l a b\nl b a", "")
	f.Add("f a/x 1\nl a/y ../b\nl b a", "")
	f.Add("f a/x 1\nl b/a ../a\nl a/b ../b", "a")
	f.Fuzz(func(t *testing.T, script, root string) {
		var entries tree
		for _, line := range strings.Split(script, "\n") {
			if kind, _, ok := strings.Cut(line, " "); ok && strings.Contains("f x l h d", kind) && len(kind) == 1 {
				entries = append(entries, line)
			}
		}
		l := pack.Limits{Entries: 1000, Bytes: 1 << 16}
		packed, p, err := packTree(t, l, root, entries)
		if err != nil {
			wantRefused(t, err, "")
			return
		}
		if verified, err := pack.Verify(bytes.NewReader(packed), l); err != nil || verified != p.Sum {
			t.Errorf("Verify = %s, %v, want %s", verified, err, p.Sum)
		}
	})
}

// FuzzVerify checks that untrusted bytes end in a sum or in ErrInvalid.
func FuzzVerify(f *testing.F) {
	packed, _, err := packTree(f, pack.Limits{}, "", module[:4])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add(gzipped(f, gzip.Header{}, []byte("x")))
	f.Add(tarball(f, fileHeader("a"), fileHeader("b")))
	f.Fuzz(func(t *testing.T, packed []byte) {
		sum, err := pack.Verify(bytes.NewReader(packed), pack.Limits{Entries: 1000, Bytes: 1 << 20})
		if err != nil {
			wantRefused(t, err, "")
			return
		}
		entries := listing(t, packed)
		if len(entries) == 0 || !strings.HasPrefix(string(sum), "h1:") {
			t.Errorf("%q has the sum %q", entries, sum)
		}
	})
}
