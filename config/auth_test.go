package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestWhoIsAsked: clients need a credential if other machines can connect: by the address on which modproxy listens, or through
// a reverse proxy in front of a loopback address.
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
		"public_url: https://m.example":       "other machines use it: public_url is https://m.example",
		"public_url: http://192.0.2.1:80":     "other machines use it: public_url is http://192.0.2.1:80",
		"public_url: http://localhost.m.test": "other machines use it: public_url is http://localhost.m.test",
		"trusted_proxies: [127.0.0.1]":        "trusted_proxies forward requests of other machines",
		"listen: ':80'\nanonymous: true":      "",
		"public_url: https://m.example\ntrusted_proxies: [127.0.0.1]\nanonymous: true": "",
		"anonymous: false":                           "",
		"anonymous: [a.example/acme]":                "anonymous has scopes, and everything else needs a token",
		"anonymous: ['*']":                           "anonymous has scopes, and everything else needs a token",
		"listen: ':80'\nanonymous: [a.example/acme]": "other machines can reach :80",
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

// TestIsLocal: neither authentication nor anonymous scopes change which machines can connect.
func TestIsLocal(t *testing.T) {
	for file, want := range map[string]bool{
		"": true, "auth: {required: true}": true, "anonymous: ['*']": true, "public_url: http://localhost:9090\nanonymous: ['*']": true,
		"listen: ':80'": false, "public_url: https://m.example\nanonymous: ['*']": false, "trusted_proxies: [127.0.0.1]\nanonymous: true": false,
	} {
		c, err := Load(writeFile(t, "modproxy.yaml", file), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got := c.IsLocal(); got != want {
			t.Errorf("%s: %v", strings.ReplaceAll(file, "\n", "; "), got)
		}
	}
}

// TestAnonymousForms: anonymous is true, false or scopes, from every source, and its printed form reads back the same.
func TestAnonymousForms(t *testing.T) {
	for name, c := range map[string]struct{ file, variable, flag, want string }{
		"nothing":               {"", "", "", "false"},
		"all":                   {"anonymous: true", "", "", "true"},
		"none":                  {"anonymous: false", "", "", "false"},
		"some":                  {"anonymous: [Registry.Terraform.IO:443/acme, '*/b']", "", "", "[registry.terraform.io/acme */b]"},
		"some, in lines":        {"anonymous:\n- bücher.example/*\n- '*'", "", "", "[xn--bcher-kva.example/* *]"},
		"by a variable":         {"anonymous: true", "a.example/*, b.example/c", "", "[a.example/* b.example/c]"},
		"by a variable in JSON": {"", `["a.example/*"]`, "", "[a.example/*]"},
		"every scope":           {"", "*", "", "[*]"},
		"no more":               {"anonymous: [a.example/*]", "false", "", "false"},
		"all the same":          {"anonymous: [a.example/*]", "0", "true", "true"},
		"by a flag":             {"anonymous: [a.example/*]", "true", "b.example/*,c.example/d", "[b.example/* c.example/d]"},
	} {
		var flags []Flag
		if c.flag != "" {
			flags = []Flag{{"anonymous", c.flag}}
		}
		got, err := Load(writeFile(t, "modproxy.yaml", c.file), []string{"MODPROXY_ANONYMOUS=" + c.variable}, flags)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := fmt.Sprint(got.Anonymous.All)
		if len(got.Anonymous.Scopes) > 0 {
			text = fmt.Sprint(got.Anonymous.Scopes)
		}
		if text != c.want || got.Anonymous.All && got.Anonymous.Scopes != nil {
			t.Errorf("%s: %+v; want %s", name, got.Anonymous, c.want)
		}
		var printed bytes.Buffer
		if err := got.Print(&printed); err != nil {
			t.Fatal(err)
		}
		if again, err := Load(writeFile(t, "again.yaml", printed.String()), nil, nil); err != nil || !reflect.DeepEqual(again.Anonymous, got.Anonymous) {
			t.Errorf("%s: printed and read again, %+v, %v", name, again, err)
		}
		if _, err := got.Describe(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
