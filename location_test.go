package modproxy_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

const base = "https://registry.example.com/v1/modules/acme/network/aws/1.2.0/download"

func TestParseLocation(t *testing.T) {
	u, _ := url.Parse(base)
	for _, c := range []struct{ in, getter, url, subdir string }{
		{"git::https://git.example.com/acme/network.git?ref=v1.2.0", "git", "https://git.example.com/acme/network.git?ref=v1.2.0", ""},
		{"git::https://git.example.com/acme/network.git//modules/x?ref=v1&depth=1", "git", "https://git.example.com/acme/network.git?ref=v1&depth=1", "modules/x"},
		{"git::ssh://git@git.example.com/acme/network.git", "git", "ssh://git@git.example.com/acme/network.git", ""},
		{"git@git.example.com:acme/network.git?ref=v1", "git", "ssh://git@git.example.com/acme/network.git?ref=v1", ""},
		{"git::git@git.example.com:acme/network.git//sub", "git", "ssh://git@git.example.com/acme/network.git", "sub"},
		{"github.com/acme/network", "git", "https://github.com/acme/network.git", ""},
		{"github.com/acme/network//sub?ref=v1", "git", "https://github.com/acme/network.git?ref=v1", "sub"},
		{"github.com/acme/network.git?ref=v1", "git", "https://github.com/acme/network.git?ref=v1", ""},
		{"github.com/acme/network/modules/x//y", "git", "https://github.com/acme/network.git", "modules/x/y"},
		{"gitlab.com/acme/network?ref=v1", "git", "https://gitlab.com/acme/network.git?ref=v1", ""},
		{"bitbucket.org/acme/network", "git", "https://bitbucket.org/acme/network.git", ""},
		{"https://x.example.com/a.tar.gz", "https", "https://x.example.com/a.tar.gz", ""},
		{"https://x.example.com/a//*?archive=tar.gz", "https", "https://x.example.com/a?archive=tar.gz", "*"},
		{"https://x.example.com/a.zip//pkg-*/modules/x", "https", "https://x.example.com/a.zip", "pkg-*/modules/x"},
		{"https://x.example.com/a.zip?u=https://y//z", "https", "https://x.example.com/a.zip?u=https://y//z", ""},
		{"https://x.example.com/a.zip//modules/my net_1.0+x@2~old, a=b", "https", "https://x.example.com/a.zip", "modules/my net_1.0+x@2~old, a=b"},
		{"https://x.example.com/a.zip//modules/b\u00fccher", "https", "https://x.example.com/a.zip", "modules/b\u00fccher"},
		{"http::https://x.example.com/a.zip", "http", "https://x.example.com/a.zip", ""},
		{"/archives/a.tgz", "https", "https://registry.example.com/archives/a.tgz", ""},
		{"./a.zip", "https", "https://registry.example.com/v1/modules/acme/network/aws/1.2.0/a.zip", ""},
		{"../a.zip//sub", "https", "https://registry.example.com/v1/modules/acme/network/aws/a.zip", "sub"},
		{"s3::https://s3.amazonaws.com/b/k.zip", "s3", "https://s3.amazonaws.com/b/k.zip", ""},
		{"HG::https://hg.example.com/x?rev=1", "hg", "https://hg.example.com/x?rev=1", ""},
		{"file:///etc", "file", "file:///etc", ""},
		{"oci://x.example.com/repo?tag=1", "oci", "oci://x.example.com/repo?tag=1", ""},
		{"oci::oci://x.example.com:5000/a/repo//b?tag=1", "oci", "oci://x.example.com:5000/a/repo?tag=1", "b"},
	} {
		got, err := modproxy.ParseLocation(c.in, u)
		want := modproxy.Location{Getter: c.getter, URL: c.url, Subdir: c.subdir}
		if err != nil || got != want {
			t.Errorf("ParseLocation(%q) = %+v, %v; want %+v", c.in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "acme/network/aws", "registry.example.com/acme/network/aws", "etc/passwd", "//x.example.com/a.zip",
		"git::https://x.example.com/a.git//../../etc", "https://x.example.com/a.zip//a/../b", "github.com/acme",
		"https://x.example.com/\x00", "git::", "https://x.example.com/a.zip//a\\b", "github.com//x",
		"https://x.example.com/a.zip//x;touch${IFS}y;#", "https://x.example.com/a.zip//`id`", "https://x.example.com/a.zip//a$b", "https://x.example.com/a.zip//a'b",
		"https://x.example.com/a.zip//a|b", "https://x.example.com/a.zip//a&b", "https://x.example.com/a.zip//a<b", "https://x.example.com/a.zip//a\"b",
		"https://x.example.com/a.zip//a\u202eb", "https://x.example.com/a.zip//a\u200bb", "https://x.example.com/a.zip//a\u0085b", "https://x.example.com/a.zip//a\xffb",
	} {
		if got, err := modproxy.ParseLocation(in, u); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("ParseLocation(%q) = %+v, %v; want ErrInvalid", in, got, err)
		}
	}
}

// The location of a record has its commit, and parses to the same location.
func TestRecordLocation(t *testing.T) {
	short, long := strings.Repeat("0a", 32), strings.Repeat("0a", 64)
	for want, r := range map[string]modproxy.Record{
		"git::https://git.example.com/a.git//b?ref=0a0a": {
			Source: modproxy.Source{URL: "https://git.example.com/a.git", Commit: "0a0a"}, Subdir: "b"},
		"https://x.example.com/a.zip":                         {Source: modproxy.Source{URL: "https://x.example.com/a.zip"}, Subdir: "."},
		"oci://x.example.com:5000/a/b?digest=sha256:" + short: {Source: modproxy.Source{URL: "oci://x.example.com:5000/a/b", Commit: short}},
		"oci://x.example.com/a?digest=sha512:" + long:         {Source: modproxy.Source{URL: "oci://x.example.com/a", Commit: long}},
	} {
		l := r.Location()
		if parsed, err := modproxy.ParseLocation(l.String(), nil); l.String() != want || err != nil || parsed != l {
			t.Errorf("%+v is at %s, parsed as %+v, error %v; want %s", r.Source, l, parsed, err, want)
		}
	}
}

func TestSplitGlob(t *testing.T) {
	for subdir, want := range map[string][2]string{
		"":                  {"", ""},
		"modules/x":         {"", "modules/x"},
		"*":                 {"*", ""},
		"pkg-*/modules/x":   {"pkg-*", "modules/x"},
		"a/[bc]/d?e/f":      {"a/[bc]/d?e", "f"},
		"terraform-aws-*/m": {"terraform-aws-*", "m"},
	} {
		pattern, rest := modproxy.Location{Subdir: subdir}.SplitGlob()
		if [2]string{pattern, rest} != want {
			t.Errorf("SplitGlob of %q = %q, %q", subdir, pattern, rest)
		}
	}
}

// No input of a registry causes a panic. The text of a parsed location parses to the same location.
func FuzzParseLocation(f *testing.F) {
	for _, s := range []string{"git::https://h/r.git//s?ref=x", "./a//b", "github.com/a/b/c//d?e=f", "git@h:p?ref=1", "https://h//x//y?z#f", "a::b::c://d", "github.com/0/0/\n"} {
		f.Add(s)
	}
	u, _ := url.Parse(base)
	f.Fuzz(func(t *testing.T, s string) {
		l, err := modproxy.ParseLocation(s, u)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatalf("error %v is not ErrInvalid", err)
			}
			return
		}
		again, err := modproxy.ParseLocation(l.String(), u)
		if err != nil || again != l {
			t.Fatalf("%.200q is %.200q, read again as %.200q, %v", s, l, again, err)
		}
	})
}

func ExampleParseLocation() {
	l, _ := modproxy.ParseLocation("github.com/acme/network//modules/subnet?ref=v1.2.0", nil)
	fmt.Println(l.Getter, l.URL, l.Subdir)
	// Output: git https://github.com/acme/network.git?ref=v1.2.0 modules/subnet
}
