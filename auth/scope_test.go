package auth_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

func module(host, namespace string) modproxy.Address {
	return modproxy.Address{Host: host, Namespace: namespace, Name: "vpc", System: "aws"}
}

func TestScopeCovers(t *testing.T) {
	for _, c := range []struct {
		scope, host, namespace string
		want                   bool
	}{
		{"registry.terraform.io/acme", "registry.terraform.io", "acme", true},
		{"registry.terraform.io/acme", "registry.terraform.io", "acme-evil", false},
		{"registry.terraform.io/acme", "registry.terraform.io", "acm", false},
		{"registry.terraform.io/acme", "registry.terraform.io", "ACME", false},
		{"registry.terraform.io/acme", "registry.terraform.io", "*", false},
		{"registry.terraform.io/acme", "registry.terraform.io.evil.example", "acme", false},
		{"registry.terraform.io/acme", "registry.terraform.io:8443", "acme", false},
		{"registry.terraform.io/acme", "evil-registry.terraform.io", "acme", false},
		{"registry.terraform.io/acme", "", "", false},
		{"corp/*", "corp", "x", true},
		{"corp/*", "corp-evil", "x", false},
		{"corp/*", "corp.evil", "x", false},
		{"corp/*", "evil.corp", "x", false},
		{"corp/*", "cor", "p/x", false},
		{"*/acme", "registry.terraform.io", "acme", true},
		{"*/acme", "corp", "acme", true},
		{"*/acme", "corp", "acme2", false},
		{"*/*", "corp", "x", true},
		{"*", "corp:8443", "x", true},
		{"a.b/c", "aXb", "c", false}, // a dot matches only a dot
	} {
		scope, err := auth.ParseScope(c.scope)
		if err != nil {
			t.Fatal(err)
		}
		for _, system := range []string{"aws", "google"} { // a scope covers all target systems of a module
			m := module(c.host, c.namespace)
			m.System = system
			if got := (auth.Scopes{scope}).Covers(m); got != c.want {
				t.Errorf("%s covers %s: %v", c.scope, m, got)
			}
		}
	}
	for namespace, want := range map[string]bool{"acme": true, "acme2": false, "other": false} {
		p := modproxy.NewProvider("registry.terraform.io", namespace, "toy")
		if got := (auth.Scopes{{Host: "registry.terraform.io", Namespace: "Acme"}}).Covers(p); got != want {
			t.Errorf("registry.terraform.io/Acme covers %s: %v", p, got)
		}
	}
	if (auth.Scopes{{}}).Covers(modproxy.Address{}) || (auth.Grant{Admin: true}).MayRead(module("a", "b")) {
		t.Error("what grants nothing covers something")
	}
}

func TestParseScopeRefuses(t *testing.T) {
	for _, s := range []string{
		"", "/", "corp", "corp/", "/acme", "corp/acme/vpc", "corp/ac*", "corp/**", "co*/acme", "**", "*.corp/acme",
		"corp/.*", "corp/[a-z]", "corp/?", "corp//acme", " corp/acme", "corp/acme ", "Corp/acme", "corp/ac me", "bücher.example/a",
		"corp/acme\n", "corp/-acme", "-corp/acme", strings.Repeat("a", 300) + "/b", "corp/" + strings.Repeat("a", 65), "!corp/acme",
	} {
		if scope, err := auth.ParseScope(s); !errors.Is(err, modproxy.ErrInvalid) || scope != (auth.Scope{}) {
			t.Errorf("ParseScope(%q) = %v, %v", s, scope, err)
		}
	}
}

// FuzzScope: the text of a parsed scope parses to the same scope. A scope covers a module if and only if each of its segments
// equals the module's or is a single star.
func FuzzScope(f *testing.F) {
	f.Add("registry.terraform.io/acme", "registry.terraform.io", "acme")
	f.Add("corp/*", "corp-evil", "x")
	f.Add("*", "a:1", "B_c")
	f.Fuzz(func(t *testing.T, s, host, namespace string) {
		scope, err := auth.ParseScope(s)
		if err != nil {
			return
		}
		if again, err := auth.ParseScope(scope.String()); err != nil || again != scope {
			t.Fatalf("%q is %v, which reads as %v, %v", s, scope, again, err)
		}
		wantHost, wantNamespace, _ := strings.Cut(s, "/")
		if s == "*" {
			wantNamespace = "*"
		}
		want := (wantHost == "*" || wantHost == host) && (wantNamespace == "*" || wantNamespace == namespace)
		if got := (auth.Scopes{scope}).Covers(module(host, namespace)); got != want {
			t.Fatalf("%q covers %q/%q: %v", s, host, namespace, got)
		}
	})
}

// asked is a registry that counts the requests it receives.
type asked struct{ n int }

func (a *asked) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	a.n++
	return nil, nil
}

func (a *asked) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	a.n++
	return modproxy.Location{}, nil
}

func (a *asked) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	a.n++
	return nil, nil
}

func TestRegistryAnswersWhoMayRead(t *testing.T) {
	reader := auth.Principal{Kind: auth.ByToken, Name: "admin", Groups: []string{"admin"}, Grant: auth.Grant{Scopes: []auth.Scope{{"corp", "acme"}}}}
	if reader.Admin {
		t.Error("a name is a right")
	}
	nobody := auth.Principal{Grant: auth.Grant{Scopes: []auth.Scope{auth.Everything}}}
	for name, c := range map[string]struct {
		ctx  context.Context
		m    modproxy.Address
		want error
	}{
		"may":       {auth.WithPrincipal(t.Context(), reader), module("corp", "acme"), nil},
		"may not":   {auth.WithPrincipal(t.Context(), reader), module("corp", "other"), modproxy.ErrNotFound},
		"elsewhere": {auth.WithPrincipal(t.Context(), reader), module("corp2", "acme"), modproxy.ErrNotFound},
		"admin":     {auth.WithPrincipal(t.Context(), auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Admin: true}}), module("corp", "acme"), modproxy.ErrNotFound},
		"nobody":    {auth.WithPrincipal(t.Context(), nobody), module("corp", "acme"), modproxy.ErrUnauthorized},
		"unsaid":    {t.Context(), module("corp", "acme"), modproxy.ErrUnauthorized},
	} {
		next := &asked{}
		r := &auth.Registry{Next: next}
		_, err := r.Versions(c.ctx, c.m)
		_, err2 := r.Location(c.ctx, c.m.At("1.0.0"))
		_, err3 := r.Package(c.ctx, c.m.At("1.0.0"))
		for _, err := range []error{err, err2, err3} {
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if want := map[bool]int{true: 3}[c.want == nil]; next.n != want {
			t.Errorf("%s: %d questions were asked", name, next.n)
		}
	}
}
