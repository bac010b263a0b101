package admin

import (
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestPattern(t *testing.T) {
	m := modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "network-x", System: "aws"}
	for pattern, want := range map[string]bool{
		"": true, "*/*/*": true, "*/*/*/*": true, "acme/*/aws": true, "acme/network-*/aws": true, "registry.example.com/acme/network-x/aws": true,
		"acme/network/aws": false, "*.example.com/*/*/*": true, "other.example.com/*/*/*": false, "acm/*/*": false, "*/*/a?s": true,
	} {
		p, err := parsePattern(pattern)
		if err != nil || p.matches(m) != want {
			t.Errorf("%q: %v, %v; want %v", pattern, p.matches(m), err, want)
		}
	}
	for _, bad := range []string{"acme", "*", "a/b", "a/b/c/d/e", "a/[/c"} {
		if _, err := parsePattern(bad); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
