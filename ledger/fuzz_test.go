package ledger_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// served matches the look-ups that sumdb.Server allows.
var served = regexp.MustCompile(`^[^@]+@v[0-9]+\.[0-9]+\.[0-9]+(-[^@]*)?(\+incompatible)?$`)

// checkKey expects a key that the client and the server of sumdb accept.
func checkKey(t *testing.T, k module.Version) {
	t.Helper()
	path, err := module.EscapePath(k.Path)
	if err != nil {
		t.Fatal(err)
	}
	version, err := module.EscapeVersion(k.Version)
	if err != nil {
		t.Fatal(err)
	}
	if asked := path + "@" + version; !served.MatchString(asked) {
		t.Fatalf("%s is not served", asked)
	}
	if again, err := module.UnescapePath(path); err != nil || again != k.Path {
		t.Fatalf("%s is taken for %q, %v", path, again, err)
	}
	if again, err := module.UnescapeVersion(version); err != nil || again != k.Version {
		t.Fatalf("%s is taken for %q, %v", version, again, err)
	}
}

func TestKey(t *testing.T) {
	m := func(s string) modproxy.Address {
		p := append(strings.Split(s, "/"), "") // a provider's address has three segments
		return modproxy.Address{Host: p[0], Namespace: p[1], Name: p[2], System: p[3]}
	}
	for _, c := range [][4]string{
		{"registry.terraform.io/Azure/a_b-C/azurerm", "1.2.3", "registry.terraform.io/Azure/a_b-C/azurerm", "v1.2.3"},
		{"registry.example.com:8443/a/b/c", "1.2.3-beta.1+b5", "registry.example.com/_8443/a/b/c", "v1.2.3-beta.1+b5"},
		{"127.0.0.1:8443/a/b/c", "1.2.3+b5", "127.0.0.1/_8443/a/b/c", "v1.2.3-_+b5"},
		{"localhost/a/b/c", "1.2.3.4", "xx--.localhost/a/b/c", "v1.2.3-_.4"},
		{"localhost:80/a/b/c", "1.2.3.4-x", "xx--.localhost/_80/a/b/c", "v1.2.3-_.4-x"},
		{"con.example/a/b/c", "1.0.0+incompatible", "xx--.con.example/a/b/c", "v1.0.0-_+incompatible"},
		{"gopkg.in/a/b/c", "1.0.0-RC1", "xx--.gopkg.in/a/b/c", "v1.0.0-RC1"},
		{"xx--.a/a/b/c", "1.0.0", "xx--.xx--.a/a/b/c", "v1.0.0"},
		{"a.b/aux/Com1/v1", "0.0.0", "a.b/aux~/Com1~/v1~", "v0.0.0"},
		{"a.b/v2/v/v2a", "0.0.0", "a.b/v2~/v/v2a", "v0.0.0"},
		{"a.b/hashicorp/aux", "1.2.3", "a.b/hashicorp/aux~", "v1.2.3"},
		{"localhost:80/a/b", "1.0.0+modproxy.platform.linux-amd64", "xx--.localhost/_80/a/b", "v1.0.0-_+modproxy.platform.linux-amd64"},
	} {
		k, err := ledger.Key(m(c[0]).At(c[1]))
		if err != nil || k.Path != c[2] || k.Version != c[3] {
			t.Errorf("Key(%s, %s) = %v, %v; want %s %s", c[0], c[1], k, err, c[2], c[3])
			continue
		}
		checkKey(t, k)
		if v, err := ledger.ParseKey(k); err != nil || v != m(c[0]).At(c[1]) {
			t.Errorf("ParseKey(%v) = %v, %v", k, v, err)
		}
	}
}

// FuzzKey: two versions never share a key, and ParseKey returns the version of a key.
func FuzzKey(f *testing.F) {
	f.Add("a.b", "n", "m", "s", "1.2.3", "a.b:1", "n", "m", "s", "1.2.3")
	f.Add("localhost", "n", "m", "s", "1.2.3", "xx--.localhost", "n", "m", "s", "1.2.3")
	f.Add("xx--.a", "aux", "m", "v1", "1.2.3+b", "xx--.xx--.a", "AUX", "m", "v1", "1.2.3-b")
	f.Add("con.a:443", "n", "m", "s", "1.2.3.4", "con.a", "443", "m", "s", "1.2.3-4")
	f.Add("gopkg.in", "n", "m", "v2", "1.2.3-~1", "gopkg.in:0", "n", "m", "v02", "1.2.3+~1")
	f.Fuzz(func(t *testing.T, h1, ns1, n1, s1, v1, h2, ns2, n2, s2, v2 string) {
		a := modproxy.Address{Host: h1, Namespace: ns1, Name: n1, System: s1}.At(v1)
		b := modproxy.Address{Host: h2, Namespace: ns2, Name: n2, System: s2}.At(v2)
		k1, err1 := ledger.Key(a)
		k2, err2 := ledger.Key(b)
		for _, err := range []error{err1, err2} {
			if err != nil && !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatalf("error %v is not ErrInvalid", err)
			}
		}
		if err1 == nil {
			checkKey(t, k1)
			if v, err := ledger.ParseKey(k1); err != nil || v != a {
				t.Fatalf("the key of %v, %v, is of %v, %v", a, k1, v, err)
			}
		}
		if err1 == nil && err2 == nil && (k1 == k2) != (a == b) {
			t.Fatalf("%v and %v have the keys %v and %v", a, b, k1, k2)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add("registry.example.com/_8443/aux~/b/v1~", "v1.2.3-_+b")
	f.Add("xx--.localhost/a/b/c", "v1.2.3-_.4")
	f.Add("xx--.registry.example.com/_/a~/b/c~", "v1.2.3-_-_")
	f.Fuzz(func(t *testing.T, path, version string) {
		k := module.Version{Path: path, Version: version}
		v, err := ledger.ParseKey(k)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatalf("error %v is not ErrInvalid", err)
			}
			return
		}
		if again, err := ledger.Key(v); err != nil || again != k {
			t.Fatalf("%v is the key of %v, whose key is %v, %v", k, v, again, err)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	r := record("1.2.3+b5", "a")
	f.Add(textOf(f, r))
	r.Reason = "the tag was moved"
	f.Add(textOf(f, r))
	r.Source.URL, r.Source.Commit = "", ""
	f.Add(textOf(f, r))
	drift := ledger.Drift{Ref: vpc.At("1.0.0"), Recorded: record("", "a").Sum, Offered: record("", "b").Sum, Source: r.Source, Time: r.Time}
	f.Add(textOf(f, drift))
	decision := ledgertest.NewDecision(vpc, modproxy.Approve, ">= 1.0, < 2")
	f.Add(textOf(f, decision))
	decision.Until = decision.Time
	f.Add(textOf(f, decision))
	decision.Until, decision.Action, decision.Link = time.Time{}, modproxy.Deprecate, "https://example.com/advisory"
	f.Add(textOf(f, decision))
	f.Add(textOf(f, aBundle(2)))
	f.Add(textOf(f, ledger.OwnHost{Host: "one.example.com:8443", Time: r.Time}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if b, err := ledger.ParseBundle(text); err == nil && !bytes.Equal(textOf(t, b), text) || err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("%q was read, and is written in another way; %v", text, err)
		}
		if o, err := ledger.ParseOwnHost(text); err == nil && !bytes.Equal(textOf(t, o), text) || err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("%q was read, and is written in another way; %v", text, err)
		}
		r, err := ledger.ParseRecord(text)
		d, driftErr := ledger.ParseDrift(text)
		decision, decisionErr := ledger.ParseDecision(text)
		if err == nil && driftErr == nil || decisionErr == nil && (err == nil || driftErr == nil) {
			t.Fatalf("%q is both", text)
		}
		if decisionErr != nil && !errors.Is(decisionErr, modproxy.ErrInvalid) {
			t.Fatalf("error %v is not ErrInvalid", decisionErr)
		}
		if decisionErr == nil && !bytes.Equal(textOf(t, decision), text) {
			t.Fatalf("%q was read, and is written in another way", text)
		}
		if err != nil && !errors.Is(err, modproxy.ErrInvalid) || driftErr != nil && !errors.Is(driftErr, modproxy.ErrInvalid) {
			t.Fatalf("errors %v, %v are not ErrInvalid", err, driftErr)
		}
		if err == nil && !bytes.Equal(textOf(t, r), text) || driftErr == nil && !bytes.Equal(textOf(t, d), text) {
			t.Fatalf("%q was read, and is written in another way", text)
		}
	})
}

func FuzzFrames(f *testing.F) {
	whole := ledger.AppendFrame(ledger.AppendFrame(nil, 0, []byte("a\n")), 1, textOf(f, record("1.0.0", "a")))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append([]byte("0 1 "), whole...))
	f.Add([]byte("0 99999999999 x\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		texts, end, err := ledger.ReadFrames(log)
		if errors.Is(err, io.EOF) != (end == int64(len(log))) {
			t.Fatalf("%q: read as far as %d of %d, %v", log, end, len(log), err)
		}
		var again []byte
		for i, text := range texts {
			again = ledger.AppendFrame(again, int64(i), text)
		}
		if !bytes.Equal(again, log[:end]) {
			t.Fatalf("%q was read, and is written as %q", log[:end], again)
		}
	})
}

func FuzzImport(f *testing.F) {
	dir := f.TempDir()
	writeSome(f, dir)
	from := mustOpen(f, dir)
	f.Add(export(f, from))
	f.Add([]byte("modproxy ledger export 1 0\n"))
	to, known := mustOpen(f, f.TempDir()), trust(f, from)
	f.Fuzz(func(t *testing.T, content []byte) {
		n, err := to.Import(t.Context(), bytes.NewReader(content), known)
		if tree := to.Tree(); err == nil && tree != from.Tree() || err != nil && n != 0 {
			t.Fatalf("%d records imported, %v: tree %v", n, err, tree)
		}
	})
}
