package policy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

func module(address string) modproxy.Address {
	s := append(strings.Split(address, "/"), "") // a provider has three segments
	return modproxy.Address{Host: s[0], Namespace: s[1], Name: s[2], System: s[3]}
}

// A star never matches a slash. A pattern without a star matches only itself.
func TestPatternMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, module string
		want            bool
	}{
		{"r.example.com/corp/*/*", "r.example.com/corp/vpc/aws", true},
		{"r.example.com/corp/*/*", "r.example.com/corp-evil/vpc/aws", false},
		{"r.example.com/corp/*/*", "r.example.com/corpvpc/x/aws", false},
		{"r.example.com/corp/*/*", "r.example.com/evil-corp/vpc/aws", false},
		{"r.example.com/*corp/*/*", "r.example.com/evil-corp/vpc/aws", true},
		{"r.example.com/corp*/*/*", "r.example.com/corp/vpc/aws", true},
		{"r.example.com/corp-*/*/*", "r.example.com/corp/vpc/aws", false},
		{"r.example.com/c*p/x/aws", "r.example.com/cp/x/aws", true},
		{"r.example.com/c*p/x/aws", "r.example.com/c/p/aws", false},
		{"r.example.com/a*a/x/aws", "r.example.com/a/x/aws", false},
		{"r.example.com/a*a/x/aws", "r.example.com/aa/x/aws", true},
		{"r.example.com/ab*ba/x/aws", "r.example.com/aba/x/aws", false},
		{"r.example.com/*a*b*/x/aws", "r.example.com/ba/x/aws", false},
		{"r.example.com/*a*b*/x/aws", "r.example.com/bab/x/aws", true},
		{"r.example.com/***/x/***aws", "r.example.com/ns/x/aws", true},
		{"*.example.com/ns/x/aws", "r.example.com/ns/x/aws", true},
		{"*.example.com/ns/x/aws", "example.com/ns/x/aws", false},
		{"*.example.com/ns/x/aws", "r.example.com.evil.org/ns/x/aws", false},
		{"*.example.com/ns/x/aws", "r.example.com:8443/ns/x/aws", false},
		{"*example.com/ns/x/aws", "evilexample.com/ns/x/aws", true},
		{"R.Example.COM:443/NS/X/AWS", "r.example.com/ns/x/aws", true},
		{"r.example.com/ns/x/aws", "r.example.com/Ns/X/aws", true},
		{"r.example.com:8443/ns/x/aws", "r.example.com/ns/x/aws", false},
		{"r.example.com/a_b/x/aws", "r.example.com/a-b/x/aws", false},
		{"münchen.example/ns/x/aws", "xn--mnchen-3ya.example/ns/x/aws", true},
		{"*/*/*/*", "r.example.com/ns/x/aws", true},
		{"*/*/*/*", "r.example.com/ns/x", false},
		{"*/*/*", "r.example.com/ns/x", true},
		{"*/*/*", "r.example.com/ns/x/aws", false},
		{"r.example.com/ns/*", "r.example.com/ns/x", true},
		{"r.example.com/ns/*", "r.example.com/ns/x/aws", false},
		{"localhost/ns/x", "localhost/ns/x", true},
	} {
		if test.module == "" {
			if _, err := policy.ParsePattern(test.pattern); err == nil {
				t.Errorf("%s is a pattern", test.pattern)
			}
			continue
		}
		if got := pattern(t, test.pattern).Match(module(test.module)); got != test.want {
			t.Errorf("%s and %s: %v, want %v", test.pattern, test.module, got, test.want)
		}
	}
	if (policy.Pattern{}).Match(vpc) || (policy.Pattern{}).Match(modproxy.Address{Namespace: "a"}) || !(policy.Pattern{}).IsZero() {
		t.Error("the zero pattern stands for something")
	}
}

// ParsePattern rejects text that no address can have, because a rule that looks right and matches nothing is dangerous.
func TestPatternRefuses(t *testing.T) {
	for _, s := range []string{
		"", "*", "acme/vpc/aws", "r.example.com/acme/vpc/aws/x", "r.example.com//vpc/aws", "/acme/vpc/aws", "r.example.com/acme/vpc/",
		"r.example.com/ac me/vpc/aws", "r.example.com/acme\x00/vpc/aws", "r.example.com/acme/vpc/aws\n", "r.example.com/\tacme/vpc/aws",
		"r.example.com/\u0430cme/vpc/aws", "r.example.com/ac\u200bme/vpc/aws", "r.example.com/acme/vpc/aws\u202e",
		"r.example.com/ac\u2217me/vpc/aws", "r.example.com/ac?e/vpc/aws", "r.example.com/[a]/vpc/aws",
		"r.example.com/a.b/vpc/aws", "r.example.com/acme/vpc/a:b", "r.example.com/acme/vpc/..", "r.example.com/acme%2f/vpc/aws",
		"*.ex\u0430mple.com/acme/vpc/aws", "*.example.com\x7f/acme/vpc/aws", "-.example.com/acme/vpc/aws", "xn--mnchen-3ya.example/a/b/c",
		"*." + strings.Repeat("a", 300) + "/acme/vpc/aws", "r.example.com/" + strings.Repeat("*", 301) + "/vpc/aws", "\xff/a/b/c", "r.example.com/\xff/b/c",
	} {
		p, err := policy.ParsePattern(s)
		if !errors.Is(err, modproxy.ErrInvalid) || !p.IsZero() {
			t.Errorf("%q: %+v, %v", s, p, err)
		}
	}
}

func TestPatternText(t *testing.T) {
	var p, q policy.Pattern
	if err := json.Unmarshal([]byte(`"r.example.com/AC*/**/aws"`), &p); err != nil {
		t.Fatal(err)
	}
	equal(t, "text", p.String(), "r.example.com/AC*/**/aws")
	again, err := json.Marshal(p)
	if err != nil || json.Unmarshal(again, &q) != nil || p != q {
		t.Errorf("%s, %v, %v", again, err, q)
	}
	if err := json.Unmarshal([]byte(`"corp/*"`), &p); !errors.Is(err, modproxy.ErrInvalid) || !p.IsZero() {
		t.Errorf("%v, %v", p, err)
	}
}

// Stars do not multiply the work: each text between them is searched once. A backtracking matcher would exceed the
// timeout of the test.
func TestGlobIsLinear(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for _, glob := range []string{strings.Repeat("*a", 100) + "*b", strings.Repeat("*", 300) + "b", strings.Repeat("a*", 149) + "b", "*" + strings.Repeat("ab*", 90)} {
		if policy.Matches(glob, long) {
			t.Errorf("%s matches", glob)
		}
	}
	if !policy.Matches(strings.Repeat("*a", 150), long) {
		t.Error("stars for nothing do not match")
	}
}

// slow is a second implementation of stars: it tries everything, and remembers its results.
func slow(glob, s string) bool {
	reach := make([]bool, len(s)+1) // lengths of s that the glob so far matches
	reach[0] = true
	for i := range len(glob) {
		now := make([]bool, len(s)+1)
		for j := range now {
			switch {
			case glob[i] == '*':
				now[j] = reach[j] || j > 0 && now[j-1]
			case j > 0:
				now[j] = reach[j-1] && glob[i] == s[j-1]
			}
		}
		reach = now
	}
	return reach[len(s)]
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"r.example.com/corp/*/*", "*.e/c*p/**a*b*/x", "münchen.de:443/a/b/c", "\u212a.de/a/b/c", "////", "*:1/a/b/c"} {
		f.Add(s, "r.example.com/corp/ab/x")
		f.Add(s, "k.de/ka/b/c")
	}
	f.Fuzz(func(t *testing.T, text, address string) {
		p, err := policy.ParsePattern(text)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) || !p.IsZero() {
				t.Fatalf("%q: %v, %v", text, p, err)
			}
			return
		}
		again, err := policy.ParsePattern(p.String())
		if err != nil || again != p || p.String() != text {
			t.Fatalf("%q is %q, which is %v, %v", text, p, again, err)
		}
		if strings.Count(address, "/") != 3 {
			return
		}
		m, want := module(address), true
		parts := strings.Split(strings.ToLower(text), "/")
		subject := strings.Split(strings.ToLower(address), "/")
		for i := range parts {
			if i > 0 || strings.Contains(parts[0], "*") {
				want = want && slow(parts[i], subject[i])
			}
		}
		if !strings.Contains(parts[0], "*") {
			subject[0] = parts[0] // package hostname handles hosts without a star
			literal := m
			literal.Host = "no such host"
			if p.Match(literal) {
				t.Fatalf("%q matches every host", text)
			}
			return
		}
		if got := p.Match(m); got != want {
			t.Fatalf("%q and %q: %v, want %v", text, address, got, want)
		}
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("*a*b*", "bab")
	f.Add("a**a", "aba")
	f.Fuzz(func(t *testing.T, glob, s string) {
		if len(glob)*len(s) < 1<<16 && policy.Matches(glob, s) != slow(glob, s) {
			t.Fatalf("%q and %q: %v", glob, s, policy.Matches(glob, s))
		}
	})
}

// Letters whose lower case is in ASCII do not count as ASCII letters.
func TestLookalikesInPatterns(t *testing.T) {
	for _, s := range []string{host + "/\u212aorp/vpc/aws", host + "/acme/v\u0130m/aws", "*.\u212a.com/acme/vpc/aws"} {
		if _, err := policy.ParsePattern(s); err == nil {
			t.Errorf("%+q is a pattern", s)
		}
	}
	if _, err := policy.Compile(policy.Config{Reserved: []policy.Reserve{{Namespace: "\u212aorp"}}}); err == nil {
		t.Error("KELVIN SIGN is reserved")
	}
}

// The port 443 is also accepted after a host with a star.
func TestPort443WithStar(t *testing.T) {
	if p, err := policy.ParsePattern("*.example.com:443/acme/vpc/aws"); err == nil && !p.Match(vpc) {
		t.Errorf("%s is taken and does not match %s", p, vpc)
	}
}
