package app

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

var vpc = modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An authenticated client is shown the records in its scopes.
func TestMayLookUp(t *testing.T) {
	scope, err := auth.ParseScope("registry.example.com/acme")
	must(t, err)
	acme := auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: []auth.Scope{scope}}}
	for path, want := range map[string]bool{
		"/latest":              true,
		"/tile/8/0/000.p/3":    true,
		"/tile/8/data/000.p/3": false,
		"/lookup/registry.example.com/acme/vpc/aws@v1.0.0":    true,
		"/lookup/registry.example.com/other/vpc/aws@v1.0.0":   false,
		"/lookup/registry.example.com/acme/!v!p!c/aws@v1.0.0": true,
		"/lookup/nonsense": false,
	} {
		v, err := mayLookUp(acme, path)
		if looked := strings.HasPrefix(path, "/lookup/") && want; (v.Version == "1.0.0") != looked {
			t.Errorf("%s: looks up %v", path, v)
		}
		if (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		admin := auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Admin: true}}
		for _, p := range []auth.Principal{admin, {}} {
			if _, err := mayLookUp(p, path); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
