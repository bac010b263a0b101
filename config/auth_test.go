package config

import (
	"strings"
	"testing"
)

// Clients are asked who they are wherever others can come from: by the address that
// is listened on, or by what stands in front of a loopback address.
func TestWhoIsAsked(t *testing.T) {
	for file, because := range map[string]string{
		"":                                    "",
		"listen: localhost:80":                "",
		"listen: '[::1]:80'":                  "",
		"listen: ':80'":                       "other machines can reach :80",
		"listen: 192.0.2.1:80":                "other machines can reach 192.0.2.1:80",
		"auth: {required: true}":              "auth.required is true",
		"public_url: http://localhost:9090":   "",
		"public_url: http://one.localhost":    "",
		"public_url: http://127.1.2.3/x":      "",
		"public_url: http://[::1]:8080":       "",
		"public_url: https://m.example":       "other machines are told of it: public_url is https://m.example",
		"public_url: http://192.0.2.1:80":     "other machines are told of it: public_url is http://192.0.2.1:80",
		"public_url: http://localhost.m.test": "other machines are told of it: public_url is http://localhost.m.test",
		"trusted_proxies: [127.0.0.1]":        "it has trusted_proxies, which stand in front of it for others",
		"listen: ':80'\nanonymous: true":      "",
		"public_url: https://m.example\ntrusted_proxies: [127.0.0.1]\nanonymous: true": "",
	} {
		c, err := Load(writeFile(t, "modproxy.yaml", file), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got := c.RequiresTokenBecause(); got != because || c.RequiresToken() != (because != "") {
			t.Errorf("%s: asked %v, because %q; want %q", strings.ReplaceAll(file, "\n", "; "), c.RequiresToken(), got, because)
		}
	}
}
