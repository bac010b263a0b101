package modproxy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	goversion "github.com/hashicorp/go-version"

	"github.com/modproxy/modproxy"
)

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"1.2.3":               "1.2.3",
		"v1.2.3":              "1.2.3",
		"1.2":                 "1.2.0",
		"3":                   "3.0.0",
		"v4":                  "4.0.0",
		"1.2.3.4":             "1.2.3.4",
		"01.2.3":              "1.2.3",
		"1.2.0+build5":        "1.2.0+build5",
		"1.2.3-rc.1":          "1.2.3-rc.1",
		"1.2.3-rc.1+meta":     "1.2.3-rc.1+meta",
		"1.2.3beta":           "1.2.3-beta",
		"1.2.3-":              "1.2.3--",
		"":                    "",
		"latest":              "",
		"vv1":                 "",
		"1..2":                "",
		"1.2.3+":              "",
		"1.2.3-a..b":          "",
		"1.2.3/../x":          "",
		"../../x":             "",
		"1.2.3\n":             "",
		"9223372036854775808": "", // 2^63
	} {
		got, err := modproxy.CanonicalVersion(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("CanonicalVersion(%q) = %q, %v; want %q", in, got, err, want)
		}
		if err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("CanonicalVersion(%q): error %v is not ErrInvalid", in, err)
		}
	}
}

// The clients' own parser is the reference for which texts are versions, their spelling in a download path, and which of two
// releases is newer.
func FuzzParseVersion(f *testing.F) {
	for _, s := range []string{"v1.2.3", "1.2.0+build5", "1.2.3-", "1.2.3-.a", "1.2.3--1", "1~2", "v0.1-alpha.1+x", "1.2.3.4.5", "2.0.0"} {
		f.Add(s, "1.2.3")
		f.Add("1.2.3.0-rc.01+b", "1.2.3-rc.1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > 200 || len(b) > 200 {
			return
		}
		v, err := modproxy.ParseVersion(a)
		theirs, theirErr := goversion.NewVersion(a)
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("ParseVersion(%q): %v; the clients: %v", a, err, theirErr)
		}
		if err != nil {
			return
		}
		if v.String() != theirs.String() || v.Prerelease() != (theirs.Prerelease() != "") {
			t.Fatalf("%q is %q here, %q for the clients", a, v, theirs)
		}
		w, err := modproxy.ParseVersion(b)
		if err != nil {
			return
		}
		if v.Compare(w) != -w.Compare(v) {
			t.Fatalf("Compare(%q, %q) is not antisymmetric", a, b)
		}
		if (v.Rank() == w.Rank()) != (v.Compare(w) == 0) {
			t.Fatalf("the ranks of %q and %q are %q and %q, and they compare as %d", a, b, v.Rank(), w.Rank(), v.Compare(w))
		}
		if !v.Prerelease() && !w.Prerelease() {
			if got, want := v.Compare(w), theirs.Compare(goversion.Must(goversion.NewVersion(b))); got != want {
				t.Fatalf("Compare(%q, %q) = %d; the clients: %d", a, b, got, want)
			}
		}
	})
}

func ExampleCanonicalVersion() {
	for _, s := range []string{"v1.2.3", "1.2", "1.2.0+build5"} {
		v, _ := modproxy.CanonicalVersion(s)
		fmt.Println(v)
	}
	// Output:
	// 1.2.3
	// 1.2.0
	// 1.2.0+build5
}

// The documentation states the maximum length of a version.
func TestLongestVersion(t *testing.T) {
	for n, ok := range map[int]bool{255: true, 256: false} {
		if _, err := modproxy.ParseVersion("1.0.0-" + strings.Repeat("x", n-len("1.0.0-"))); (err == nil) != ok {
			t.Errorf("a version of %d bytes: %v", n, err)
		}
	}
}
