package conformance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// registry is a registry by path. Every client can work with it until a test breaks it.
type registry map[string]http.HandlerFunc

const (
	modulePath  = "/v1/modules/acme/network/aws"
	packagePath = "/packages/network.tar.gz"
	source      = "https://git.example.com/acme/network"
)

func (r registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if h := r[q.URL.Path]; h != nil {
		h(w, q)
		return
	}
	http.NotFound(w, q)
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, strings.ReplaceAll(text, "{host}", q.Host))
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func leads(location string) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Terraform-Get", strings.ReplaceAll(location, "{host}", q.Host))
		w.WriteHeader(http.StatusNoContent)
	}
}

// holds serves a package with these files.
func holds(entries ...tar.Header) http.HandlerFunc {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, h := range entries {
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := t.WriteHeader(&h); err != nil {
			panic(err)
		}
	}
	t.Close()
	z.Close()
	return func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(b.Len()))
		w.Write(b.Bytes())
	}
}

// withToken serves h to requests with the token, and answers others with code.
func withToken(h http.HandlerFunc, code int) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(code)
			return
		}
		h(w, q)
	}
}

const (
	discovered = `{"modules.v1": "/v1/modules/", "providers.v1": "/v1/providers/"}`
	versioned  = `{"modules": [{"source": "` + source + `", "versions": [{"version": "1.0.0"}, {"version": "1.1.0"}, {"version": "2.0.0-beta"}]}]}`
	summarized = `"id": "acme/network/aws/1.1.0", "namespace": "acme", "name": "network", "provider": "aws", "version": "1.1.0",
		"source": "` + source + `", "published_at": "2023-01-02T03:04:05Z", "downloads": 3, "verified": false`
	described = `{` + summarized + `, "root": {"path": "", "inputs": [{"name": "a", "type": "string", "default": "\"b\"", "required": false}]},
		"submodules": [], "versions": ["1.0.0", "1.1.0", "2.0.0-beta"]}`
	listed = `{"meta": {"limit": 15, "current_offset": 0}, "modules": [{` + summarized + `}]}`
)

func dated(versions ...string) string {
	var all []string
	for _, v := range versions {
		all = append(all, `{"type": "module-versions", "attributes": {"version": "`+v+`", "published-at": "2023-01-02T03:04:05Z"}}`)
	}
	return `{"data": {"attributes": {"source": "` + source + `"}}, "included": [` + strings.Join(all, ",") + `]}`
}

func good() registry {
	r := registry{
		"/.well-known/terraform.json":  says(discovered),
		modulePath + "/versions":       says(versioned),
		packagePath:                    holds(tar.Header{Name: "main.tf"}),
		modulePath:                     says(described),
		modulePath + "/1.1.0":          says(described),
		"/v2/modules/acme/network/aws": says(dated("1.0.0", "1.1.0", "2.0.0-beta")),
		"/v1/modules":                  says(listed),
		"/v1/modules/search":           says(listed),
	}
	r.leads("http://{host}" + packagePath)
	return r
}

// leads answers every download with a location.
func (r registry) leads(location string) { r.downloads(leads(location)) }

func (r registry) downloads(h http.HandlerFunc) {
	for _, version := range []string{"", "/1.1.0", "/v1.1.0", "/latest"} {
		r[modulePath+version+"/download"] = h
	}
}

// forOpenTofu answers downloads of OpenTofu 1.12 with a body.
func (r registry) forOpenTofu(body string) {
	others := r[modulePath+"/1.1.0/download"]
	r.downloads(func(w http.ResponseWriter, q *http.Request) {
		if q.UserAgent() == "OpenTofu/1.12.6" {
			says(body)(w, q)
			return
		}
		others(w, q)
	})
}

// verdicts tests a registry and returns the clients without a pass, by verdict and rule.
func verdicts(t *testing.T, r registry, m modproxy.Address, token string) (found map[Verdict]map[string][]string, said string) {
	t.Helper()
	return verdictsOf(t, Run, r, m, token)
}

// verdictsOf is like verdicts, with the rules that run tests.
func verdictsOf(
	t *testing.T, run func(context.Context, Options, func(Finding) error) error, r registry, m modproxy.Address, token string,
) (found map[Verdict]map[string][]string, said string) {
	t.Helper()
	server := httptest.NewServer(r)
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if m.Host == "" {
		m.Host = u.Host
	}
	found = map[Verdict]map[string][]string{Fail: {}, Warn: {}, Without: {}, Pass: {}}
	if err := run(t.Context(), Options{URL: u, Modules: []modproxy.Address{m}, Token: token}, func(f Finding) error {
		if strings.Contains(f.Seen, "nothing to check") {
			return nil
		}
		found[f.Verdict][f.Rule] = append(found[f.Verdict][f.Rule], f.Client)
		if f.Verdict != Pass || strings.Contains(f.Seen, "…") {
			said += fmt.Sprintln(f.Client, f.Rule, f.Verdict, f.Seen)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found, said
}

var network = modproxy.Address{Namespace: "acme", Name: "network", System: "aws"}

func TestGood(t *testing.T) {
	for _, host := range []string{"", "registry.example.com"} {
		m := network
		m.Host = host
		found, said := verdicts(t, good(), m, "")
		if len(found[Fail])+len(found[Warn]) > 0 {
			t.Errorf("by the host %q:\n%s", host, said)
		}
		for rule := range found[Without] {
			if !slices.Contains([]string{"auth.token", "auth.stranger", "download.direct", "api.docs"}, rule) {
				t.Errorf("%s is not applied:\n%s", rule, said)
			}
		}
	}
}

func TestToken(t *testing.T) {
	guarded := func(code int) registry {
		r := good()
		for path, h := range r {
			if strings.HasPrefix(path, "/v") {
				r[path] = withToken(h, code)
			}
		}
		return r
	}
	found, said := verdicts(t, guarded(http.StatusUnauthorized), network, "secret")
	if len(found[Fail]) > 0 || !slices.Equal(found[Warn]["auth.token"], []string{language, assistant, updatecli, tfupdate}) {
		t.Errorf("with a token:\n%s", said)
	}
	found, said = verdicts(t, guarded(http.StatusForbidden), network, "secret")
	if len(found[Fail]) > 0 || len(found[Warn]["auth.stranger"]) != 2 {
		t.Errorf("with a token, and 403 without:\n%s", said)
	}
	found, said = verdicts(t, guarded(http.StatusUnauthorized), network, "")
	if len(found[Fail]["versions.answer"]) != 12 {
		t.Errorf("without a token:\n%s", said)
	}
	r := good()
	r[packagePath] = withToken(r[packagePath], http.StatusUnauthorized)
	found, said = verdicts(t, r, network, "secret")
	if got := slices.Sorted(maps.Keys(found[Fail])); !slices.Equal(got, []string{"package.get"}) {
		t.Errorf("with a package that wants a token:\n%s", said)
	}
}

// OpenTofu 1.12 and later sends its token if the answer asks for it, and detects the format of a package from its
// content.
func TestDirect(t *testing.T) {
	r := good()
	r["/private"] = withToken(r[packagePath], http.StatusUnauthorized)
	r.forOpenTofu(`{"location": "/private", "use_registry_credentials": true}`)
	found, said := verdicts(t, r, network, "secret")
	if len(found[Fail]) > 0 || !slices.Equal(found[Pass]["download.direct"], []string{opentofu}) {
		t.Error(said)
	}
	if found, said = verdicts(t, r, network, ""); !slices.Equal(found[Fail]["package.get"], []string{opentofu}) {
		t.Error(said)
	}
}

// Every rule detects a registry with just its fault, and no other rule reports that registry.
func TestBroken(t *testing.T) {
	seen := map[string]bool{"auth.token": true, "auth.stranger": true, "discovery.size": true} // see TestToken and TestLargeDiscovery
	for _, test := range brokenRegistries {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			r, m := good(), network
			m.Host = test.host
			test.breaks(r)
			found, said := verdicts(t, r, m, "")
			compare(t, test.want, found, said)
		})
		for _, w := range test.want {
			seen[w.rule] = true
		}
	}
	for _, r := range rules {
		if !seen[r.id] {
			t.Errorf("nothing breaks %s", r.id)
		}
	}
}

// compare compares found verdicts with expected ones.
func compare(t *testing.T, all []expected, found map[Verdict]map[string][]string, said string) {
	t.Helper()
	want := map[Verdict]map[string][]string{Fail: {}, Warn: {}, Without: {}}
	for _, w := range all {
		want[w.verdict][w.rule] = w.clients
	}
	for rule, clients := range found[Without] { // other rules that do not apply are ignored
		if want[Without][rule] == nil {
			want[Without][rule] = clients
		}
	}
	for v, rules := range want {
		if !maps.EqualFunc(found[v], rules, slices.Equal) {
			t.Errorf("%s: want %q, got %q\n%s", v, rules, found[v], said)
		}
	}
}

// Every rule is for existing clients, and names their files.
func TestRules(t *testing.T) {
	names := map[string]bool{}
	for _, c := range clients {
		if names[c.name] = true; c.like != "" && !names[c.like] {
			t.Errorf("%s is like %s, which is not before it", c.name, c.like)
		}
	}
	type pair struct{ rule, client string }
	once := map[pair]bool{}
	for _, r := range rules {
		for name, file := range r.files {
			if !names[name] || file == "" || r.wants == "" || once[pair{r.id, name}] {
				t.Errorf("%s for %s", r.id, name)
			}
			once[pair{r.id, name}] = true
		}
	}
}

// Registries sign the addresses of packages, so results must not contain the signatures: results may be published.
func TestSecrets(t *testing.T) {
	r := good()
	r.leads("http://user:secret@{host}" + packagePath + "?token=secret&archive=tar.gz")
	if _, said := verdicts(t, r, network, ""); !strings.Contains(said, "://…@") || !strings.Contains(said, "?…") || strings.Contains(said, "secret") {
		t.Error(said)
	}
}

// Only clients with a configurable base URL are tested if the URL has a path.
func TestBelow(t *testing.T) {
	inner := good()
	outer := registry{}
	for path, h := range inner {
		outer["/registries/acme"+path] = h
	}
	outer["/registries/acme/.well-known/terraform.json"] = says(`{"modules.v1": "http://{host}/registries/acme/v1/modules/"}`)
	outer[packagePath] = inner[packagePath]
	server := httptest.NewServer(outer)
	defer server.Close()
	u, _ := url.Parse(server.URL + "/registries/acme/")
	m, tried := network, map[string]bool{}
	m.Host = u.Host
	if err := Run(t.Context(), Options{URL: u, Modules: []modproxy.Address{m}}, func(f Finding) error {
		if tried[f.Client] = true; f.Verdict == Fail || f.Verdict == Warn {
			t.Errorf("%+v", f)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(tried)); !slices.Equal(got, []string{opentofu, tofuOld, renovate, terraform, tfupdate}) {
		t.Errorf("tried: %q", got)
	}
}

// For any answers of a registry, every client gets a verdict with a text.
func FuzzRun(f *testing.F) {
	location := "http://registry.example.com" + packagePath
	f.Add(discovered, versioned, location, `{}`, described, "")
	f.Add(`{"modules.v1":"?#"}`, `{"modules":[{"versions":[{"version":"1"}]}]}`, "git::x//*", `{"location":"://","use_registry_credentials":true}`, "[]", "PK")
	var now registry
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { now.ServeHTTP(w, q) }))
	f.Cleanup(server.Close)
	u, _ := url.Parse(server.URL)
	m := network
	m.Host = "registry.example.com"
	f.Fuzz(func(t *testing.T, discovery, versions, location, body, details, archive string) {
		if strings.Contains(location+body, "?") {
			return // conformance would wait for another second
		}
		now = registry{
			doc: says(discovery), modulePath + "/versions": says(versions), packagePath: says(archive), modulePath: says(details),
			detailsAt: says(details), datesAt: says(details), "/v1/modules": says(details), "/v1/modules/search": says(details),
		}
		now.downloads(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("X-Terraform-Get", location)
			io.WriteString(w, body)
		})
		s := newSession(Options{URL: u, Token: "secret"}, m)
		s.transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, u.Host)
		}
		s.transport.Proxy = nil
		defer s.transport.CloseIdleConnections()
		if err := s.run(t.Context(), func(f Finding) error {
			if f.Seen == "" || !slices.Contains([]Verdict{Pass, Without, Warn, Fail}, f.Verdict) {
				t.Errorf("%+v", f)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}
