package proxy_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/proxy"
)

// offering is a host with services beside those of a registry.
type offering struct {
	services map[string]string
	asked    []string
	offered  int // how often it was asked for the services
}

func (o *offering) OtherServices(_ context.Context, of string) map[string]string {
	o.offered++
	if of != host {
		return nil
	}
	return o.services
}

func (o *offering) Document(_ context.Context, of, path string) (string, []byte, error) {
	o.asked = append(o.asked, of+path)
	if path == "/notes/none" {
		return "", nil, modproxy.ErrNotFound
	}
	return "text/plain", []byte("hello"), nil
}

func newOffering() *offering {
	return &offering{services: map[string]string{
		"motd.v1": "/api/motd", "notes.v1": "/notes/", "far.v1": "https://far.example/x",
		"modules.v1": "/evil/", "providers.v1": "https://evil.example/", // which ours come before
		"elsewhere.v1": "//evil.example/x", "dots.v1": "/a/../v1/", "escaped.v1": "/a%2fb/", "operating.v1": "/-/", "plain.v1": "http://far.example/",
		"well.v1": "/.well-known/", "root.v1": "/", "script.v1": "javascript:alert(1)",
		"docs.v1": "/registry/docs/modules/", "below.v1": "/registry/docs/modules/acme", "same.v1": "/registry/docs/modules", // which our own routes answer
		"list.v1": "/api/v1/modules", "history.v1": "/api/v2/modules/", "provider.v1": "/api/v1/providers/x",
	}}
}

func offered(t *testing.T, h http.Handler, name string) map[string]string {
	t.Helper()
	services := map[string]string{}
	if err := json.Unmarshal([]byte(body(t, get(h, "/.well-known/terraform.json", "Host", name))), &services); err != nil {
		t.Fatal(err)
	}
	return services
}

// Under an upstream's name, clients see its other services, and get their documents.
func TestOtherServices(t *testing.T) {
	o := newOffering()
	h := newHandler(t, func(c *proxy.Config, _ *scripted) { c.OtherServices = o })
	want := map[string]string{
		"modules.v1": "/v1/modules/", "providers.v1": "/v1/providers/", "motd.v1": "/api/motd", "notes.v1": "/notes/", "far.v1": "https://far.example/x",
	}
	if got := offered(t, h, host); !maps.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	if got := offered(t, h, "127.0.0.1:8080"); len(got) != 1 {
		t.Errorf("of the proxy's own hostname: %v", got)
	}
	header := []string{"Host", host, "Authorization", "Bearer x", "Cookie", "a=b"}
	const secret = "aaaaaaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	for path, status := range map[string]int{
		"/api/motd": 200, "/api/motd/x": 200, "/api/motd?a=b": 200, "/notes/": 200, "/notes/a/b.json": 200, "/notes/none": 404,
		"/api/motdx": 404, "/api/": 404, "/notes": 404, "/status": 404, "/notes/../v1/x": 404, "/notes/%2e%2e/x": 404, "/notes/a%2fb": 404,
		"/notes//x": 404, "/notes/.git/config": 404, "/notes/..;/x": 404, "/notes/a%5cb": 404, "/NOTES/x": 404, "//notes/x": 404, "/-/x": 404,
		"/notes/v1/modules/a/b/c/versions": 403, "/notes/v1/providers/a/b/versions": 409, "/.well-known/x": 404, "/": 404,
		"/notes/x?t=mp_" + secret: 400, "/notes/x?t=%6dp_" + secret: 400, "/notes/x?t=m%2570_" + secret: 400, "/notes/x?t=m%252570_" + secret: 400,
		"/notes/x?t=%6dp%5F" + strings.ReplaceAll(secret, "_", "%5f") + "&u=%25zz": 400, "/notes/x?%65yJhbGci%2EeyJzdWIi%2Ec2lnbmF0dXJl": 400,
		"/notes/x?t=%zz": 400, "/notes/x?t=%": 400, "/notes/x?t=100%25&u=%25zz": 200,
	} {
		o.asked = nil
		res := get(h, path, header...)
		if res.StatusCode != status {
			t.Errorf("%s: %s; want %d", path, res.Status, status)
		}
		passed := slices.Contains(o.asked, host+path)
		if passed != (status == 200 || path == "/notes/none") || len(o.asked) > 1 {
			t.Errorf("%s: the host was asked for %q", path, o.asked)
		}
		if status == 200 && (body(t, res) != "hello" || res.Header.Get("Content-Type") != "text/plain" || res.Header.Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s: %v", path, res.Header)
		}
	}
	o.asked = nil
	if res := do(h, "POST", "/api/motd", header...); res.StatusCode != 405 || len(o.asked) > 0 {
		t.Errorf("POST: %s", res.Status)
	}
	if res := get(h, "/api/motd", "Host", "127.0.0.1:8080"); res.StatusCode != 404 || len(o.asked) > 0 {
		t.Errorf("under the proxy's own hostname: %s", res.Status)
	}
	if res := do(h, "HEAD", "/api/motd", header...); res.StatusCode != 200 {
		t.Errorf("HEAD: %s", res.Status)
	}
}

// Tokens of this proxy are not sent to other hosts. The other services of a host may reveal any of its modules: for clients that may
// not read all modules they do not exist, and the host is not requested.
func TestOthersWithTokens(t *testing.T) {
	o := newOffering()
	anybody := auth.Scopes{{Host: host, Namespace: "acme"}, {Host: "open.example", Namespace: auth.AnySegment}}
	h, tokens, _ := guarded(t, plain, func(c *proxy.Config) {
		c.OtherServices, c.Auth.Anonymous = o, anybody
		c.Upstreams.Hosts["open.example"] = true
	})
	own := map[string]string{"modules.v1": "/v1/modules/", "providers.v1": "/v1/providers/"}
	all := map[string]string{"modules.v1": "/v1/modules/", "providers.v1": "/v1/providers/", "motd.v1": "/api/motd", "notes.v1": "/notes/"}
	for name, all := range map[string]map[string]string{"": own, "acme": own, "reader": all, "operator": own, "nobody's": own} {
		o.asked, o.offered = nil, 0
		header := []string{"Host", host}
		if name != "" {
			header = append(header, bearer(tokens[name])...)
		}
		services := map[string]string{}
		if err := json.Unmarshal([]byte(body(t, get(h, "/.well-known/terraform.json", header...))), &services); err != nil || !maps.Equal(services, all) {
			t.Errorf("to %q: %v, %v; want %v", name, services, err, all)
		}
		there, absent := get(h, "/api/motd", header...), get(h, "/api/none", header...)
		if mayRead := len(all) > len(own); (there.StatusCode == 200) != mayRead || (len(o.asked) == 1) != mayRead || (o.offered > 0) != mayRead || !mayRead && body(t, there) != body(t, absent) {
			t.Errorf("to %q: %s, %s; asked for %v, and %d times for services", name, there.Status, absent.Status, o.asked, o.offered)
		}
	}
	if get(h, "/api/motd", "Host", "open.example"); o.offered == 0 {
		t.Error("nobody is told of what a host has whose modules are for everybody")
	}
}

// A client that may read nothing of an upstream does not learn that the upstream exists: requests for its name are answered like
// requests for any other name. A client that may read modules of one upstream does not learn of the others.
func TestDiscoveryDoesNotConfirmNames(t *testing.T) {
	for _, local := range []bool{false, true} {
		for _, public := range []string{"", "https://example.com/x"} {
			h, tokens, _ := guarded(t, plain, func(c *proxy.Config) { c.PublicURL, c.Local = public, local })
			told := func(name string, header ...string) string {
				res := get(h, "/.well-known/terraform.json", append(header, "Host", name)...)
				return res.Status + " " + body(t, res)
			}
			if known, unknown := told(host), told("guessed.example"); known != unknown {
				t.Errorf("local %v, public URL %q: %s, and of no upstream %s", local, public, known, unknown)
			}
			if known := told(host, bearer(tokens["acme"])...); !strings.HasPrefix(known, "200") || !strings.Contains(known, `providers.v1`) {
				t.Errorf("local %v, public URL %q: with a token %s", local, public, known)
			}
			if own := told("127.0.0.1:8080"); strings.Contains(own, "providers.v1") {
				t.Errorf("of the proxy itself: %s", own)
			}
		}
	}
}

func TestDiscoveryOfRegistriesForAnybody(t *testing.T) {
	h, _, _ := guarded(t, plain, func(c *proxy.Config) { c.Auth.Anonymous = auth.Scopes{{Host: auth.AnySegment, Namespace: "acme"}} })
	if res := get(h, "/"+host+"/.well-known/terraform.json"); res.StatusCode != 200 {
		t.Errorf("of one: %s", res.Status)
	}
	if res := get(h, "/gone.example/.well-known/terraform.json"); res.StatusCode != 401 {
		t.Errorf("of none: %s", res.Status)
	}
}
