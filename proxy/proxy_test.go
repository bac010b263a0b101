package proxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/rewrite"
	"github.com/modproxy/modproxy/test/registrytest"
)

const (
	host    = "registry.example.com"
	base    = "/" + host + "/v1/modules/acme/network/aws"
	files   = "/" + host + "~/v1/modules/acme/network/aws"
	archive = files + "/1.1.0/network-aws-1.1.0.tar.gz"
)

// scripted is a registry with answers that a test sets.
type scripted struct {
	modproxy.Registry
	err error
	how func(*modproxy.Versions)
}

func (s *scripted) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	if s.err != nil {
		return nil, s.err
	}
	v, err := s.Registry.Versions(ctx, m)
	if err == nil && s.how != nil {
		copied := *v
		s.how(&copied)
		v = &copied
	}
	return v, err
}

func (s *scripted) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	m, version := v.Address, v.FullVersion()
	if s.err != nil {
		return modproxy.Location{}, s.err
	}
	return s.Registry.Location(ctx, m.At(version))
}

// process is a process with fixed answers.
type process struct {
	name, home string
	problems   []proxy.Problem
}

func (p process) HasName(host string) bool  { return host == p.name }
func (p process) Problems() []proxy.Problem { return p.problems }
func (p process) Home(string) string        { return p.home }

// newHandler serves the modules of registrytest.Modules.
func newHandler(t testing.TB, change func(*proxy.Config, *scripted)) http.Handler {
	t.Helper()
	memory, err := registrytest.NewMemory(host, registrytest.Modules())
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Registry: memory}
	c := proxy.Config{
		Registry:  &rewrite.Registry{Next: s},
		Upstreams: protocol.Upstreams{Hosts: map[string]bool{host: true}, Default: host},
	}
	if change != nil {
		change(&c, s)
	}
	return proxy.New(c)
}

func get(h http.Handler, path string, header ...string) *http.Response {
	return do(h, http.MethodGet, path, header...)
}

func do(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	if forged := r.Header.Get("Host"); forged != "" {
		r.Host = forged
	}
	if from := r.Header.Get("Test-From"); from != "" {
		r.RemoteAddr = from
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestVersions(t *testing.T) {
	h := newHandler(t, nil)
	plain := get(h, base+"/versions")
	if plain.StatusCode != 200 || plain.Header.Get("Content-Type") != "application/json" || plain.Header.Get("Age") != "" {
		t.Errorf("%s, %v", plain.Status, plain.Header)
	}
	document := body(t, plain)
	if v, err := modproxy.ParseVersions([]byte(document)); err != nil || len(v.List) != 3 {
		t.Errorf("document %s: %v", document, err)
	}
	packed := get(h, base+"/versions", "Accept-Encoding", "gzip")
	zr, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(zr); err != nil || string(b) != document || packed.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("gzip: %q, %v, %v", b, err, packed.Header)
	}
	if packed.Header.Get("Vary") != "Accept-Encoding" || plain.Header.Get("Vary") != "Accept-Encoding" {
		t.Error("Vary is missing")
	}
	for _, header := range []string{"gzip;q=0", "identity", "br, deflate"} {
		if res := get(h, base+"/versions", "Accept-Encoding", header); body(t, res) != document {
			t.Errorf("Accept-Encoding %s got another coding", header)
		}
	}
	if res := get(h, base+"/versions", "If-None-Match", `"x", W/`+plain.Header.Get("Etag")); res.StatusCode != 304 || body(t, res) != "" {
		t.Errorf("condition: %s", res.Status)
	}
	if res := do(h, "HEAD", base+"/versions"); res.StatusCode != 200 {
		t.Errorf("HEAD: %s", res.Status)
	}
	if res := get(h, "/"+host+"/v1/modules/acme/nothing/aws/versions"); res.StatusCode != 404 {
		t.Errorf("an unknown module: %s", res.Status)
	}
}

func TestVersionsSayHowTheyWereKept(t *testing.T) {
	for want, how := range map[string]func(*modproxy.Versions){
		"modproxy; fwd=miss; stored":  nil,
		"modproxy; hit":               func(v *modproxy.Versions) { v.Hit = true; v.Time = time.Now().Add(-90 * time.Second) },
		"modproxy; hit; detail=stale": func(v *modproxy.Versions) { v.Hit, v.Stale = true, true; v.Time = time.Now().Add(-90 * time.Second) },
	} {
		res := get(newHandler(t, func(_ *proxy.Config, s *scripted) { s.how = how }), base+"/versions")
		if got := res.Header.Get("Cache-Status"); got != want {
			t.Errorf("Cache-Status %q; want %q", got, want)
		}
		if got := res.Header.Get("Age"); (got == "90") != (how != nil) {
			t.Errorf("%s: Age %q", want, got)
		}
	}
}

func TestDownload(t *testing.T) {
	h := newHandler(t, func(c *proxy.Config, _ *scripted) {
		c.PublicURL = "https://modules.example.com"
	})
	for path, want := range map[string]string{
		base + "/1.1.0/download":                      "https://modules.example.com" + archive,
		base + "/v1.1/download":                       "https://modules.example.com" + archive,
		base + "/download":                            "https://modules.example.com" + archive, // 2.0.0-beta.1 is a pre-release
		base + "/latest/download":                     "https://modules.example.com" + archive,
		"/v1/modules/acme/network/aws/1.1.0/download": "https://modules.example.com" + archive,
		base + "/9.9.9/download":                      "",
	} {
		res := get(h, path)
		if got := res.Header.Get("X-Terraform-Get"); got != want || res.StatusCode != map[bool]int{true: 204, false: 404}[want != ""] || want != "" && body(t, res) != "" {
			t.Errorf("%s: %s, %q; want %q", path, res.Status, got, want)
		}
	}
}

func TestPackage(t *testing.T) {
	h := newHandler(t, nil)
	whole := get(h, archive)
	content := body(t, whole)
	tag := whole.Header.Get("Etag")
	if whole.StatusCode != 200 || whole.ContentLength != int64(len(content)) || len(content) == 0 ||
		whole.Header.Get("Content-Encoding") != "" || whole.Header.Get("Content-Type") != "application/gzip" ||
		whole.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || len(tag) != 66 {
		t.Errorf("%s, %v", whole.Status, whole.Header)
	}
	if res := do(h, "HEAD", archive); res.StatusCode != 200 || res.ContentLength != int64(len(content)) || body(t, res) != "" {
		t.Errorf("HEAD: %s, length %d", res.Status, res.ContentLength)
	}
	if res := get(h, archive, "Range", "bytes=5-9"); res.StatusCode != 206 || body(t, res) != content[5:10] {
		t.Errorf("range: %s", res.Status)
	}
	if res := get(h, archive, "Range", "bytes=5-9", "If-Range", `"other"`); res.StatusCode != 200 || body(t, res) != content {
		t.Errorf("If-Range of another: %s", res.Status)
	}
	if res := get(h, archive, "If-None-Match", tag); res.StatusCode != 304 {
		t.Errorf("condition: %s", res.Status)
	}
	if res := get(h, archive+"?terraform-get=1", "Accept-Encoding", "gzip"); body(t, res) != content || res.Header.Get("X-Terraform-Get") != "" {
		t.Errorf("with a query: %s", res.Status)
	}
	for _, path := range []string{
		files + "/1.1/network-aws-1.1.tar.gz", files + "/v1.1.0/network-aws-v1.1.0.tar.gz",
		files + "/1.1.0/network-aws-1.0.0.tar.gz", files + "/1.1.0/x.tar.gz", files + "/9.9.9/network-aws-9.9.9.tar.gz",
		base + "/1.1.0/network-aws-1.1.0.tar.gz",
	} {
		if res := get(h, path); res.StatusCode != 404 {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// broken is a package that fails in the middle.
type broken struct {
	content *bytes.Reader
	left    int
}

func (b *broken) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("damaged")
	}
	n := min(len(p), b.left)
	b.left -= n
	return b.content.Read(p[:n])
}
func (b *broken) Seek(to int64, whence int) (int64, error) { return b.content.Seek(to, whence) }
func (b *broken) Verify(context.Context) error             { return nil }
func (b *broken) Close() error                             { return nil }

type brokenRegistry struct{ modproxy.Registry }

func (brokenRegistry) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return &modproxy.Package{Body: &broken{bytes.NewReader(make([]byte, 1<<20)), 1 << 19}, Size: 1 << 20}, nil
}

// A client never takes a part of a package for the whole package.
func TestPackageThatBreaksIsNotComplete(t *testing.T) {
	h := newHandler(t, func(c *proxy.Config, _ *scripted) { c.Registry = brokenRegistry{} })
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		server := httptest.NewUnstartedServer(h)
		server.EnableHTTP2 = protocol == "HTTP/2.0"
		server.StartTLS()
		res, err := server.Client().Get(server.URL + archive)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err == nil || res.Proto != protocol {
			t.Errorf("%s: %d bytes and error %v", res.Proto, n, err)
		}
		server.Close()
	}
}

func TestErrors(t *testing.T) {
	failed := &modproxy.FetchFailed{Time: time.Now(), Err: &modproxy.Error{Op: "package", Ref: modproxy.Address{Host: host, Namespace: "acme", Name: "network", System: "aws"}.At("1.1.0"), Err: errors.New("git fetch:\nno such ref")}}
	h := newHandler(t, func(_ *proxy.Config, s *scripted) { s.err = failed })
	res := get(h, base+"/1.1.0/download")
	want := `{"errors":["package registry.example.com/acme/network/aws 1.1.0: git fetch: no such ref; ask the operator of this proxy"]}` + "\n"
	if got := body(t, res); res.StatusCode != 424 || got != want || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s, %q; want %q", res.Status, got, want)
	}
	h = newHandler(t, func(_ *proxy.Config, s *scripted) {
		s.err = &modproxy.RetryLater{After: time.Now().Add(1500 * time.Millisecond), Err: modproxy.ErrUnavailable}
	})
	if res := get(h, base+"/versions"); res.StatusCode != 503 || res.Header.Get("Retry-After") != "2" {
		t.Errorf("%s, %v", res.Status, res.Header)
	}
	for path, status := range map[string]int{"/": 404, "/nothing": 404, "/-/healthz": 200, "/-/readyz": 200, "/-/metrics": 200} {
		if res := get(h, path); res.StatusCode != status {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if res := do(h, method, base+"/versions"); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %s", method, res.Status)
		}
	}
}

func TestReady(t *testing.T) {
	problems := []proxy.Problem{{State: "nothing new is kept"}, {State: "no client is identified", Err: errors.New("open /data/auth/key: permission denied")}}
	const plain, whole = "nothing new is kept; no client is identified", "nothing new is kept; no client is identified: open /data/auth/key: permission denied"
	ops, reader := auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Admin: true}}, auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: []auth.Scope{auth.Everything}}}
	asking := func(c *proxy.Config) { c.Auth = &auth.Authenticator{JWT: names{"o.p.s": ops, "r.e.a": reader}} }
	for name, test := range map[string]struct {
		change func(*proxy.Config)
		header []string
		want   string
	}{
		"everybody may read":      {func(*proxy.Config) {}, nil, plain},
		"the operator":            {func(*proxy.Config) {}, []string{"X-Operator", "yes"}, whole},
		"on this machine":         {func(c *proxy.Config) { c.Local = true }, []string{"Host", "127.0.0.1"}, whole},
		"on it, by scopes":        {func(c *proxy.Config) { asking(c); c.Local, c.Auth.Anonymous = true, auth.Scopes{auth.Everything} }, []string{"Host", "127.0.0.1"}, plain},
		"without a token":         {asking, nil, plain},
		"with a bad token":        {asking, bearer("x.x.x"), plain},
		"a reader of everything":  {asking, bearer("r.e.a"), plain},
		"an operator, by a token": {asking, bearer("o.p.s"), whole},
	} {
		var log bytes.Buffer
		h := newHandler(t, func(c *proxy.Config, _ *scripted) {
			c.Process = process{problems: problems}
			c.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(&log), zapcore.WarnLevel))
			test.change(c)
		})
		res := get(ownersSay(h), "/-/readyz", test.header...)
		if text := body(t, res); res.StatusCode != 503 || text != `{"errors":["`+test.want+`"]}`+"\n" {
			t.Errorf("%s: %s %s; want %s", name, res.Status, text, test.want)
		}
		if !strings.Contains(log.String(), whole) {
			t.Errorf("%s: logged %s", name, &log)
		}
	}
}

// names are the principals of JSON Web Tokens.
type names map[string]auth.Principal

func (n names) Verify(_ context.Context, text string, _ time.Time) (auth.Principal, error) {
	if p, ok := n[text]; ok {
		return p, nil
	}
	return auth.Principal{}, &auth.Refused{Why: "no such"}
}

func (names) Login(time.Time) *auth.Login { return nil }

// A token in a path is not in the log, however it is hidden there.
func TestLogHidesTokens(t *testing.T) {
	const token = "mp_abcdefghijklmnop_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
	escaped := strings.ReplaceAll(token, "_", "%5f")
	for name, hidden := range map[string]string{
		"as it is": token, "escaped": escaped, "escaped twice": strings.ReplaceAll(escaped, "%", "%25"),
		"escaped thrice": strings.ReplaceAll(escaped, "%", "%2525"), "with a zero": token[:30] + "%00" + token[30:],
		"with a zero, escaped twice": token[:30] + "%2500" + token[30:], "with an end of a line": token[:30] + "%0a" + token[30:],
		"escaped often": strings.ReplaceAll(escaped, "%", "%"+strings.Repeat("25", 20)),
	} {
		var out bytes.Buffer
		encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "message"})
		h := newHandler(t, func(c *proxy.Config, _ *scripted) {
			c.Log = zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zapcore.InfoLevel))
		})
		for _, path := range []string{"/" + hidden, base + "/" + hidden + "/download", "/" + hidden + "/v1/modules/acme/network/aws/versions"} {
			get(h, path, "User-Agent", strings.ReplaceAll(hidden, "%0a", ""))
		}
		if text := out.String(); strings.Contains(text, token[20:30]) || strings.Contains(text, token[40:50]) || strings.Count(text, "[redacted]") < 3 {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Each request has one entry. Programs read its fields by name.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "message", LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder})
	h := newHandler(t, func(c *proxy.Config, _ *scripted) {
		c.Log = zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zapcore.InfoLevel))
	})
	get(h, base+"/versions", "User-Agent", "Terraform/1.11.4")
	get(h, base+"/v1.1/download?token=SECRET", "Authorization", "Bearer SECRET")
	get(h, base+"/%0a%7b/download", "User-Agent", "x\n{\"level\":\"info\"}"+strings.Repeat("y", 100_000))
	get(h, "/-/healthz")
	if strings.Contains(out.String(), "SECRET") {
		t.Errorf("a secret is in the log: %s", &out)
	}
	var entries []map[string]any
	for line := range strings.Lines(out.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if seconds, ok := entry["seconds"].(float64); !ok || seconds <= 0 {
			t.Errorf("seconds %v", entry["seconds"])
		}
		if agent := entry["user_agent"].(string); len(agent) > 600 {
			t.Errorf("a user agent of %d bytes", len(agent))
		}
		delete(entry, "seconds")
		entries = append(entries, entry)
	}
	if len(entries) != 3 {
		t.Fatalf("%d entries for three requests that count: %s", len(entries), &out)
	}
	module := host + "/acme/network/aws"
	want := []map[string]any{
		{"level": "info", "message": "request", "kind": "versions", "module": module, "method": "GET", "path": base + "/versions", "status": 200.0,
			"bytes": entries[0]["bytes"], "client": "192.0.2.1", "user_agent": "Terraform/1.11.4", "cache": "modproxy; fwd=miss; stored"},
		{"level": "info", "message": "request", "kind": "download", "module": module, "version": "1.1.0", "method": "GET", "path": base + "/v1.1/download",
			"status": 204.0, "bytes": 0.0, "client": "192.0.2.1", "user_agent": ""},
		{"level": "warn", "message": "request", "method": "GET", "path": base + "/\n{/download", "status": 400.0, "bytes": entries[2]["bytes"],
			"client": "192.0.2.1", "user_agent": entries[2]["user_agent"], "error": `invalid: version "\n{"`},
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Error(diff)
	}
}

// Every answer forbids browsers to guess another media type.
func TestNoSniff(t *testing.T) {
	h := describing(t, &told{}, func(c *proxy.Config) { c.Process = process{home: "home"} })
	for _, path := range []string{
		base + "/versions", base + "/1.1.0/download", archive, base + "/1.1.0", "/v2/modules/acme/network/aws", "/v1/modules",
		"/" + host + "/v1/providers/acme/toy/versions", "/.well-known/terraform.json", "/", "/-/healthz", "/-/readyz", "/-/metrics", "/nowhere",
	} {
		if res := get(h, path); res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s %v", path, res.Status, res.Header)
		}
	}
}
