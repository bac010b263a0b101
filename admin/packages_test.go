package admin_test

import (
	"errors"
	"path"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
)

func TestPattern(t *testing.T) {
	m := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "network-x", System: "aws"}
	for pattern, want := range map[string]bool{
		"*/*/*": true, "*/*/*/*": true, "acme/*/aws": true, "acme/network-*/aws": true, "registry.example.com/acme/network-x/aws": true,
		"acme/network/aws": false, "*.example.com/*/*/*": true, "other.example.com/*/*/*": false, "acm/*/*": false, "*/*/a?s": true,
	} {
		p, err := admin.ParsePattern(pattern)
		if got, _ := path.Match(p, m.String()); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", pattern, got, err, want)
		}
	}
	for _, bad := range []string{"acme", "*", "a/b/c/d/e", "a/[/c"} {
		if _, err := admin.ParsePattern(bad); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for s, want := range map[string]string{
		"": "", "acme/*": "*/acme/*", "*/*": "*/*/*", "acme/*/aws": "*/acme/*/aws", "registry.example.com/acme/*": "registry.example.com/acme/*",
		"localhost:8080/a/b": "localhost:8080/a/b",
	} {
		if got, err := admin.ParsePattern(s); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", s, got, err, want)
		}
	}
}
