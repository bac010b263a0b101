package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/proxy"
)

// Where clients need no credential, a web page under a foreign name that leads here reads nothing.
func TestNameThatIsNotOurs(t *testing.T) {
	say := func(w http.ResponseWriter, _ *http.Request) error { _, err := w.Write([]byte("x")); return err }
	local := func(c *proxy.Config, _ *scripted) {
		c.Local = true
		c.PublicURL = "http://modules.internal:9090/r"
		c.Process = process{name: "certified.test:8443", home: "home"}
		c.Upstreams.Any = true
		c.Mounts = []proxy.Mount{
			{Method: "GET", Path: "/-/sumdb/", Public: true, Handle: say},
			{Method: "GET", Path: "/-/api/x", Handle: say},
		}
	}
	h := ownersSay(newHandler(t, local))
	for _, path := range []string{
		base + "/versions", base + "/1.1.0/download", archive, "/v1/modules/acme/network/aws/versions",
		"/.well-known/terraform.json", "/-/metrics", "/-/readyz", "/-/healthz", "/-/sumdb/key", "/-/api/x", "/", "/nowhere",
	} {
		for name, ours := range map[string]bool{
			"rebound.test": false, "rebound.test:8080": false, "127.0.0.1.rebound.test": false, "localhost.rebound.test:80": false,
			"registry.example.com.rebound.test": false, "other.example": false, "0x7f000001": false, "certified.test": false, "[rebound.test]": false,
			"127.0.0.1": true, "127.0.0.1:1": true, "192.0.2.1:8080": true, "[::1]": true, "[::1]:8080": true,
			"localhost": true, "LOCALHOST:8080": true, "localhost.": true, "me.localhost:1": true,
			host: true, "Registry.Example.com:443": true, "certified.test:8443": true, "modules.internal": true, "Modules.Internal:1": true,
		} {
			res := get(h, path, "Host", name, "X-Operator", "yes")
			if refused := res.StatusCode == http.StatusMisdirectedRequest; refused == ours {
				t.Errorf("%s of %s: %s", path, name, res.Status)
			} else if text := body(t, res); refused && (!strings.Contains(text, "set public_url") || strings.Contains(text, "rebound")) {
				t.Errorf("%s of %s: %s", path, name, text)
			}
		}
	}
	for what, change := range map[string]func(*proxy.Config, *scripted){
		"everybody may read": nil,
		"they are asked":     func(c *proxy.Config, _ *scripted) { c.Auth = &auth.Authenticator{} },
	} {
		if res := get(newHandler(t, change), base+"/versions", "Host", "modules.test"); res.StatusCode == http.StatusMisdirectedRequest {
			t.Errorf("%s: %s", what, res.Status)
		}
	}
}

// A web page under a foreign name cannot read modules that need no credential on this machine. A request with a token or a signed
// path is answered under any name.
func TestNameThatIsNotOursForAnybody(t *testing.T) {
	h, tokens, _ := guarded(t, plain, func(c *proxy.Config) {
		c.PublicURL, c.Local = "", true
		c.Auth.Anonymous = auth.Scopes{{Host: host, Namespace: "other"}}
	})
	const others = "/" + host + "/v1/modules/other/network/aws"
	foreign := []string{"Host", "rebound.test"}
	for _, path := range []string{
		others + "/versions", base + "/versions", base + "/1.1.0/download", archive, "/" + host + "/v1/modules/none/network/aws/versions",
		"/" + host + "/.well-known/terraform.json", "/.well-known/terraform.json", "/-/public", "/", "/nowhere",
	} {
		for _, header := range [][]string{nil, bearer("junk"), bearer(tokens["acme"] + "x"), {"Authorization", "Basic Og=="}} {
			if res := get(h, path, append(header, foreign...)...); res.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%s, %q: %s", path, header, res.Status)
			}
		}
	}
	for _, name := range []string{"127.0.0.1:8080", host} {
		if res := get(h, others+"/versions", "Host", name); res.StatusCode != http.StatusNotFound { // and not 401
			t.Errorf("to anybody, of %s: %s", name, res.Status)
		}
	}
	header := append(bearer(tokens["acme"]), foreign...)
	for path, want := range map[string]int{base + "/versions": 200, archive: 200, "/" + host + "/v1/modules/third/network/aws/versions": 404} {
		if res := get(h, path, header...); res.StatusCode != want {
			t.Errorf("with a token, %s: %s; want %d", path, res.Status, want)
		}
	}
	res := get(h, base+"/1.1.0/download", header...)
	signed := res.Header.Get("X-Terraform-Get")
	if !strings.HasPrefix(signed, "/s_") {
		t.Fatalf("download: %s, %q", res.Status, signed)
	}
	if res := get(h, signed, foreign...); res.StatusCode != http.StatusOK {
		t.Errorf("a signed path: %s", res.Status)
	}
	if res := get(h, "/s_"+strings.Repeat("A", 74)+archive, foreign...); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a path that looks signed: %s", res.Status)
	}
}
