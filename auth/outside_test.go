package auth_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// listing is a registry that lists one version of every module.
type listing struct{ asked int }

func (l *listing) Versions(_ context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	l.asked++
	if m.Name == "absent" {
		return nil, modproxy.ErrNotFound
	}
	return modproxy.NoVersions(m).With([]modproxy.Listed{{Version: first, Spelling: "1.0.0", Entry: []byte(`{"version":"1.0.0"}`)}})
}

func (l *listing) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	l.asked++
	return modproxy.Location{}, nil
}

func (l *listing) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	l.asked++
	return nil, nil
}

var first, _ = modproxy.ParseVersion("1.0.0")

// TestOutside: in open registries, clients learn that their scopes do not cover a module. In others, the module does not exist
// for them. The text has the reason in both cases, for the log.
func TestOutside(t *testing.T) {
	p := auth.Principal{Kind: auth.ByToken, ID: "abc", Name: "ci", Grant: auth.Grant{Scopes: auth.Scopes{{"open", "mine"}, {"shut", "mine"}}}}
	ctx := auth.WithPrincipal(t.Context(), p)
	next := &listing{}
	open := auth.Open(func(host string) bool { return host == "open" })
	reg := &auth.Registry{Next: next, Open: open, Contact: func() string { return "#platform" }}
	for host, want := range map[string]error{"open": modproxy.ErrDenied, "shut": modproxy.ErrNotFound} {
		for _, listed := range []bool{false, true} {
			reg.ListOutside = func() bool { return listed }
			m := module(host, "theirs")
			_, err := reg.Location(ctx, m.At("1.0.0"))
			reason := want.Error() + ": token ci (abc) may read open/mine, shut/mine, and not " + host + "/theirs (operator: create a token with --scope " + host + "/theirs)"
			if !errors.Is(err, want) || errors.Is(err, modproxy.ErrDenied) == errors.Is(err, modproxy.ErrNotFound) || !strings.HasSuffix(err.Error(), reason) {
				t.Errorf("%s: %v; want %s", host, err, reason)
			}
			v, err := reg.Versions(ctx, m)
			if isListed := listed && host == "open"; (err == nil) != isListed || isListed && len(v.List) != 1 {
				t.Errorf("%s, listed: %t: %v, %v", host, listed, v, err)
			}
			v, err = reg.Versions(ctx, modproxy.NewProvider(host, "theirs", "toy"))
			if isListed := listed && host == "open"; (err == nil) != isListed || isListed && (!strings.Contains(string(v.Document), `"warnings":["open/theirs/toy: denied: token ci (abc) may read`) ||
				!strings.Contains(string(v.Document), `; ask #platform"]`)) {
				t.Errorf("provider of %s, listed: %t: %v, %v", host, listed, v, err)
			}
			absent := module(host, "theirs")
			absent.Name = "absent"
			if _, err := reg.Versions(ctx, absent); !errors.Is(err, want) {
				t.Errorf("%s, absent: %v", host, err)
			}
		}
	}
	if next.asked != 3 {
		t.Errorf("next was asked %d times; want three lists of the open registry", next.asked)
	}
	many := slices.Repeat(auth.Scopes{{"open", "x"}}, 100)
	for scopes, want := range map[string]auth.Principal{
		"may read nothing, and not": {Kind: auth.ByToken, Grant: auth.Grant{Admin: true}}, " and 95 more, and not": {Kind: auth.ByIssuer, Grant: auth.Grant{Scopes: many}},
	} {
		if _, err := reg.Location(auth.WithPrincipal(t.Context(), want), module("open", "theirs").At("1.0.0")); !strings.Contains(err.Error(), scopes) {
			t.Errorf("%v; want %s", err, scopes)
		}
	}
}
