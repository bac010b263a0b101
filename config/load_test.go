package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/internal/durable"
)

// get returns the value of a key as "modproxy config" prints it.
func get(t *testing.T, c *Config, path string) string {
	t.Helper()
	for _, k := range c.keys() {
		if k.Path == path {
			return yamlText(k.value)
		}
	}
	t.Fatalf("no key %s", path)
	return ""
}

func TestLoadPrecedence(t *testing.T) {
	file := writeFile(t, "modproxy.yaml", `
data: /from/file
listen: 127.0.0.1:1
cache:
  fresh: 1m
  missing: 1s
trusted_proxies: [10.0.0.1]
egress:
  ports:
    - 8443
tls:
`)
	variables := []string{
		"MODPROXY_CONFIG=" + file, "MODPROXY_CACHE_FRESH=2m", "MODPROXY_LISTEN=127.0.0.1:2", "MODPROXY_OFFLINE=true",
		"MODPROXY_TRUSTED_PROXIES=10.0.0.2, 10.1.0.0/16", "MODPROXY_EGRESS_ALLOW=[git.corp.example, '10.0.0.0/8']",
		"MODPROXY_DATA=", "PATH=/bin", "MODPROXYX=1",
		// Kubernetes sets these next to a service called modproxy:
		"MODPROXY_SERVICE_HOST=10.0.0.1", "MODPROXY_SERVICE_PORT=80", "MODPROXY_SERVICE_PORT_HTTP=80", "MODPROXY_PORT=tcp://10.0.0.1:80",
		"MODPROXY_PORT_80_TCP=tcp://10.0.0.1:80", "MODPROXY_PORT_80_TCP_ADDR=10.0.0.1", "MODPROXY_PORT_80_TCP_PORT=80", "MODPROXY_PORT_80_TCP_PROTO=tcp",
	}
	flags := []Flag{{"listen", "127.0.0.1:3"}, {"public-url", ""}}
	c, err := Load("", variables, flags)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]string{
		"listen":          {"127.0.0.1:3", "--listen"},
		"public_url":      {`""`, "--public-url"},
		"data":            {"/from/file", file + ":2"},
		"cache.fresh":     {"2m", "MODPROXY_CACHE_FRESH"},
		"cache.missing":   {"1s", file + ":6"},
		"cache.max_stale": {"720h", "default"},
		"tls.cert_file":   {`""`, "default"},
		"offline":         {"true", "MODPROXY_OFFLINE"},
		"trusted_proxies": {"[10.0.0.2/32, 10.1.0.0/16]", "MODPROXY_TRUSTED_PROXIES"},
		"egress.ports":    {"[8443]", file + ":10"},
		"egress.allow":    {"[git.corp.example, 10.0.0.0/8]", "MODPROXY_EGRESS_ALLOW"},
	} {
		if value, source := get(t, c, path), c.Source(path); value != want[0] || source != want[1] {
			t.Errorf("%s = %s from %s, want %s from %s", path, value, source, want[0], want[1])
		}
	}
	if other := writeFile(t, "other.yaml", "log: {level: debug}"); true {
		c, err := Load(other, variables, nil)
		if err != nil || c.Log.Level != "debug" || c.Data != "modproxy-data" {
			t.Errorf("the file of --config: %v, %v; want it instead of that of MODPROXY_CONFIG", c, err)
		}
	}
}

func TestLoadLists(t *testing.T) {
	token := writeFile(t, "token", "s3cr3t\n")
	for name, text := range map[string]string{
		"JSON":       `[{"host": "Registry.Example.com:443", "token_file": "` + token + `"}, {"host": "*"}]`,
		"flow YAML":  `[{host: Registry.Example.com:443, token_file: ` + token + `}, {host: "*"}]`,
		"block YAML": "- host: Registry.Example.com:443\n  token_file: " + token + "\n- host: '*'\n",
	} {
		c, err := Load("", []string{"MODPROXY_UPSTREAMS=" + text}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(c.Upstreams) != 2 || c.Upstreams[0].Host != "registry.example.com" || c.Upstreams[0].Token.Reveal() != "s3cr3t" || c.Upstreams[1].Host != "*" {
			t.Errorf("%s: upstreams = %v", name, c.Upstreams)
		}
		if source := c.Source("upstreams[1].host"); !strings.HasPrefix(source, "MODPROXY_UPSTREAMS") {
			t.Errorf("%s: upstreams come from %v", name, source)
		}
	}
}

// TestLoadListReplaced: a later list replaces an earlier one together with its sources.
func TestLoadListReplaced(t *testing.T) {
	file := writeFile(t, "modproxy.yaml", "upstreams:\n- host: a.example\n- host: b.example\n  modules: https://b.example/m/\n")
	c, err := Load(file, []string{`MODPROXY_UPSTREAMS=[{host: c.example}]`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Upstreams) != 1 || c.Upstreams[0] != (Upstream{Host: "c.example"}) {
		t.Errorf("upstreams = %v, want c.example alone", c.Upstreams)
	}
	for path := range c.sources {
		if strings.HasPrefix(path, "upstreams[") && c.sources[path] != "MODPROXY_UPSTREAMS" {
			t.Errorf("%s still comes from %s", path, c.sources[path])
		}
	}
}

func TestReadSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"s3cr3t": "s3cr3t", "s3cr3t\n": "s3cr3t", "s3cr3t\r\n": "s3cr3t", "s3cr3t\n\n": "s3cr3t\n", " s3cr3t": " s3cr3t",
		"": "", "\n": "", strings.Repeat("x", maxFile+1): "",
	} {
		file := writeFile(t, "secret", text)
		c, err := Load(writeFile(t, "modproxy.yaml",
			"upstreams: [{host: a.example, token_file: "+file+"}]\n"+
				"credentials: [{host: a.example, username: u, password_file: "+file+"}]\n"), nil, nil)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "upstreams[0].token_file: "+file) || !strings.Contains(err.Error(), "credentials[0].password_file: "+file) {
				t.Errorf("a secret of %d bytes: %v, want an error that names key and file", len(text), err)
			}
			continue
		}
		if err != nil || c.Upstreams[0].Token.Reveal() != want || c.Credentials[0].Password.Reveal() != want {
			t.Errorf("a file with %q: %v, want the secret %q", text, err, want)
		}
	}
}

// TestReload: Reload reports changed keys and mistakes, and does not wait for a pipe.
func TestReload(t *testing.T) {
	file := writeFile(t, "modproxy.yaml", "cache: {fresh: 1m}\nupstreams: [{host: a.example, token: x}]\n")
	c, err := Load(file, []string{"MODPROXY_OFFLINE=true"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"cache: {fresh: 1m}\nupstreams: [{host: A.example, token: x}]\n":               "",
		"cache: {fresh: 2m}\nupstreams: [{host: a.example, token: y}]\ndata: new":      "data upstreams cache.fresh",
		"offline: false\ncache: {fresh: 1m}\nupstreams: [{host: a.example, token: x}]": "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, changed, err := c.Reload(); err != nil || strings.Join(changed, " ") != want {
			t.Errorf("%q: changed %q, %v; want %q", text, changed, err, want)
		}
	}
	if err := os.WriteFile(file, []byte("cache: {fresh: 0s}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Reload(); err == nil {
		t.Error("what is wrong was not told")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Reload(); !errors.Is(err, durable.ErrNotRegular) {
		t.Errorf("a directory: %v", err)
	}
}

// TestCheckAll: Check reports all mistakes at once, but none that only follows from another one.
func TestCheckAll(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string // a part of each mistake, in their order
	}{
		"nothing":                  {"listen: 127.0.0.1:1", nil},
		"malformed and unfit":      {"shutdown: 5\nlog: {level: loud}", []string{"shutdown", "log.level"}},
		"the same key once":        {"cache: {fresh: x, max_stale: 1s}", []string{"cache.fresh"}},
		"a route to what is wrong": {"upstreams: [{host: 7}]\nroutes: [{namespace: acme, upstream: a.example}]", []string{"upstreams[0].host"}},
		"a nested key":             {"public_url: [x]\nrewrite: {nested: true}", []string{"public_url"}},
		"who shows a token":        {"listen: [x]\nauth: {issuers: [{url: 'http://a.example', audience: b}]}", []string{"listen", "auth.issuers[0]"}},
		"where upstreams may be":   {"egress: {allow: 7}\nupstreams: [{host: a.example, modules: 'https://10.1.2.3/'}]", []string{"egress.allow"}},
		"a secret":                 {"log: {level: loud}\ncredentials: [{host: a.example, password_file: /nowhere/x}]", []string{"log.level", "password_file"}},
		"no YAML":                  {"listen: \"x\nlog: {level: loud}", []string{"not YAML"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, wrong := Check(writeFile(t, "modproxy.yaml", test.text), nil, nil)
			if c == nil || len(wrong) != len(test.want) {
				t.Fatalf("%q, want %q", wrong, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(wrong[i].Error(), want) {
					t.Errorf("%q, want %q", wrong[i], want)
				}
			}
		})
	}
	c, _ := Check(writeFile(t, "modproxy.yaml", "log: {level: loud}\ncache: {fresh: x}"), nil, nil)
	if c.IsSound("log") || c.IsSound("tls", "cache") || !c.IsSound("tls", "policy") || !c.IsSound("") {
		t.Errorf("unsound: %v", c.unsound)
	}
}
