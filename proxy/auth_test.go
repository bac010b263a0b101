package proxy_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/proxy"
)

// here is a registry whose packages are all cached.
type here struct{ modproxy.Registry }

func (r here) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	m, version := v.Address, v.FullVersion()
	l, err := r.Registry.Location(ctx, m.At(version))
	l.Kept = true
	return l, err
}

// guarded returns a handler that identifies clients, and a token for each namespace.
func guarded(t testing.TB, wrap func(modproxy.Registry) modproxy.Registry, set ...func(*proxy.Config)) (h http.Handler, tokens map[string]string, kept *auth.Tokens) {
	t.Helper()
	dir := t.TempDir()
	kept, err := auth.OpenTokens(filepath.Join(dir, "tokens.json"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := auth.OpenSigner(t.Context(), filepath.Join(dir, "key"), auth.SignerConfig{Tokens: kept})
	if err != nil {
		t.Fatal(err)
	}
	tokens = map[string]string{}
	for name, scope := range map[string]auth.Scope{"acme": {Host: host, Namespace: "acme"}, "other": {Host: host, Namespace: "other"}, "reader": auth.Everything, "operator": {Host: "nowhere.example", Namespace: "none"}} {
		text, _, err := kept.Create(t.Context(), auth.Token{Name: name, Scopes: []auth.Scope{scope}, Admin: name == "operator"})
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = text
	}
	h = newHandler(t, func(c *proxy.Config, _ *scripted) {
		c.PublicURL = "https://modules.example.com"
		c.Registry = &auth.Registry{Next: wrap(c.Registry)}
		c.Auth = &auth.Authenticator{Tokens: kept, Signer: signer}
		say := func(w http.ResponseWriter, _ *http.Request) error { _, err := w.Write([]byte("x")); return err }
		c.Mounts = []proxy.Mount{{Method: "GET", Path: "/-/public", Public: true, Handle: say}, {Method: "GET", Path: "/-/api/x", Handle: say}}
		for _, change := range set {
			change(c)
		}
	})
	return h, tokens, kept
}

func plain(r modproxy.Registry) modproxy.Registry { return r }

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// A shared cache must not store the list of versions of one principal.
func TestVersionsArePrivate(t *testing.T) {
	h, tokens, _ := guarded(t, plain)
	if got := get(h, base+"/versions", bearer(tokens["acme"])...).Header.Get("Cache-Control"); got != "private, no-cache" {
		t.Errorf("Cache-Control: %q", got)
	}
	if got := get(newHandler(t, nil), base+"/versions").Header.Get("Cache-Control"); got != "" {
		t.Errorf("where nobody is asked, Cache-Control: %q", got)
	}
}

// signedPath returns the location of a package for a client with the token.
func signedPath(t testing.TB, h http.Handler, token string) string {
	t.Helper()
	res := get(h, base+"/1.1.0/download", bearer(token)...)
	path, ok := strings.CutPrefix(res.Header.Get("X-Terraform-Get"), "https://modules.example.com")
	if res.StatusCode != 204 || !ok {
		t.Fatalf("%s, %v", res.Status, res.Header)
	}
	return path
}

func TestWhoMayAsk(t *testing.T) {
	h, tokens, _ := guarded(t, plain, func(c *proxy.Config) { c.Upstreams.Docs = map[string]string{"docs.example.org": host} })
	signed := signedPath(t, h, tokens["acme"])
	for _, c := range []struct {
		name, path string
		header     []string
		status     int
	}{
		{"nobody", base + "/versions", nil, 401},
		{"a wrong token", base + "/versions", bearer(tokens["acme"][:len(tokens["acme"])-1] + "z"), 401},
		{"may read", base + "/versions", bearer(tokens["acme"]), 200},
		{"by basic authentication", base + "/versions", []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+tokens["acme"]))}, 200},
		{"may not read: the same as absent", base + "/versions", bearer(tokens["other"]), 404},
		{"absent", "/" + host + "/v1/modules/other/nothing/aws/versions", bearer(tokens["other"]), 404},
		{"download, may not read", base + "/1.1.0/download", bearer(tokens["other"]), 404},
		{"package by nobody", archive, nil, 401},
		{"package, may read", archive, bearer(tokens["acme"]), 200},
		{"package, may not read", archive, bearer(tokens["other"]), 404},
		{"signed", signed, nil, 200},
		{"signed, with a query", signed + "?terraform-get=1&archive=false", nil, 200},
		{"signed for another version", strings.ReplaceAll(signed, "1.1.0", "1.0.0"), nil, 401},
		{"tampered", "/s_" + strings.Repeat("A", 74) + archive, nil, 401},
		{"signed, but no package", strings.Replace(signed, archive, base+"/versions", 1), nil, 401},
		{"signed, for a host that is not known", strings.Replace(signed, host, "other.example", 1), nil, 401},
		{"signed, but nonsense", strings.Replace(signed, archive, "/v1/modules/", 1), nil, 401},
		{"health is for everybody", "/-/healthz", nil, 200},
		{"metrics by nobody", "/-/metrics", nil, 401},
		{"metrics by no operator", "/-/metrics", bearer(tokens["acme"]), 404},
		{"metrics by an operator", "/-/metrics", bearer(tokens["operator"]), 200},
		{"a public mount by nobody", "/-/public", nil, 401},
		{"a public mount by a reader", "/-/public", bearer(tokens["acme"]), 200},
		{"a public mount by an operator", "/-/public", bearer(tokens["operator"]), 200},
		{"the API by a reader of everything", "/-/api/x", bearer(tokens["reader"]), 404},
		{"the API by an operator", "/-/api/x", bearer(tokens["operator"]), 200},
		{"discovery is for everybody", "/.well-known/terraform.json", nil, 200},
		{"which registries there are is not", "/" + host + "/.well-known/terraform.json", nil, 401},
		{"nor which not", "/other.example/.well-known/terraform.json", nil, 401},
		{"discovery of a registry", "/" + host + "/.well-known/terraform.json", bearer(tokens["acme"]), 200},
		{"discovery of no registry of ours", "/other.example/.well-known/terraform.json", bearer(tokens["acme"]), 403},
	} {
		res := get(h, c.path, c.header...)
		if res.StatusCode != c.status {
			t.Errorf("%s: %s; want %d", c.name, res.Status, c.status)
		}
		if got := res.Header.Get("WWW-Authenticate"); (got != "") != (c.status == 401) {
			t.Errorf("%s: WWW-Authenticate %q", c.name, got)
		}
		if strings.Contains(res.Header.Get("Cache-Control"), "public") {
			t.Errorf("%s: anybody may keep it", c.name)
		}
	}
	for _, c := range []struct{ name, path, want string }{
		{"modules.example.com", "/v1/modules/acme/network/aws/versions", "modules_example_com"},
		{host, "/v1/modules/acme/network/aws/versions", "registry_example_com"},
		{host, "/v1/modules", "registry_example_com"},
		{host, "/v2/modules/acme/network/aws", "registry_example_com"},
		{"modules.example.com", "/v1/modules", "modules_example_com"},
		{"modules.example.com", "/" + host + "/v1/modules", "registry_example_com"},
		{"modules.example.com", "/v2/modules/acme/network/aws", "modules_example_com"},
		{"modules.example.com", "/" + host + "/v2/modules/acme/network/aws", "registry_example_com"},
		{"docs.example.org", "/registry/docs/modules/acme/network/aws/index.json", "docs_example_org"},
	} {
		if text := body(t, get(h, c.path, "Host", c.name)); !strings.Contains(text, "no token was sent: set TF_TOKEN_"+c.want+`; ask the operator of this proxy for a token"`) {
			t.Errorf("without a token, as %s, %s: %s; want %s", c.name, c.path, text, c.want)
		}
	}
	absent, forbidden := get(h, "/"+host+"/v1/modules/other/nothing/aws/versions", bearer(tokens["other"])...), get(h, base+"/versions", bearer(tokens["other"])...)
	if a, f := body(t, absent), body(t, forbidden); a != f || !maps.EqualFunc(absent.Header, forbidden.Header, slices.Equal) {
		t.Errorf("absent %q, %v and forbidden %q, %v differ", a, absent.Header, f, forbidden.Header)
	}
	if res := do(h, "HEAD", signed); res.StatusCode != 200 || res.ContentLength <= 0 {
		t.Errorf("HEAD of a signed path: %s", res.Status)
	}
	if res := get(h, signed, "Range", "bytes=0-3"); res.StatusCode != 206 {
		t.Errorf("a range of a signed path: %s", res.Status)
	}
	if again := signedPath(t, h, tokens["acme"]); again != signed {
		t.Errorf("the path of one package is %s and then %s", signed, again)
	}
}

// The signed paths of a token end with it.
func TestRevokedTokenTakesItsPathsAlong(t *testing.T) {
	h, tokens, kept := guarded(t, plain)
	signed := signedPath(t, h, tokens["acme"])
	if _, err := kept.Revoke(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for path, header := range map[string][]string{base + "/versions": bearer(tokens["acme"]), signed: nil} {
		if res := get(h, path, header...); res.StatusCode != 401 {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// OpenTofu since 1.12 can send its token with the request for a package, so that the location needs no secret. The answer asks for
// that only if OpenTofu can do it: for a whole package that is cached.
func TestRegistryCredentials(t *testing.T) {
	h, tokens, _ := guarded(t, plain)
	res := get(h, base+"/1.1.0/download", append(bearer(tokens["acme"]), "User-Agent", "OpenTofu/1.12.6")...)
	if res.StatusCode != 204 || !strings.Contains(res.Header.Get("Vary"), "User-Agent") {
		t.Errorf("of a package that is not here: %s, %v", res.Status, res.Header)
	}
	h, tokens, _ = guarded(t, func(r modproxy.Registry) modproxy.Registry { return here{r} })
	res = get(h, base+"/1.1.0/download", append(bearer(tokens["acme"]), "User-Agent", "OpenTofu/1.12.6")...)
	var answer struct {
		Location string `json:"location"`
		Own      bool   `json:"use_registry_credentials"`
	}
	if err := json.Unmarshal([]byte(body(t, res)), &answer); err != nil || res.StatusCode != 200 {
		t.Fatalf("%s: %v", res.Status, err)
	}
	if answer.Location != "https://modules.example.com"+archive || !answer.Own || !strings.HasPrefix(res.Header.Get("X-Terraform-Get"), "https://modules.example.com/s_") {
		t.Errorf("%+v, %v", answer, res.Header)
	}
	for agent, status := range map[string]int{
		"OpenTofu/1.12.0-rc1 (+https://opentofu.org)": 200, "OpenTofu/2.0.0": 200,
		"OpenTofu/1.11.9": 204, "OpenTofu/dev": 204, "Terraform/1.15.0": 204, "1.12.6": 204,
	} {
		if res := get(h, base+"/1.1.0/download", append(bearer(tokens["acme"]), "User-Agent", agent)...); res.StatusCode != status {
			t.Errorf("%s: %s; want %d", agent, res.Status, status)
		}
	}
}
