package config

import (
	"strings"
	"testing"
)

// TestKeys: every key has one unique variable, and at most one flag, with a description.
func TestKeys(t *testing.T) {
	seen := map[string]string{fileVariable: "the file", "MODPROXY_TOKEN": "the token of verbs"}
	for _, k := range Keys() {
		name := k.Variable()
		if other := seen[name]; other != "" {
			t.Errorf("%s is the variable of %s and of %s", name, k.Path, other)
		}
		if serviceLink.MatchString(name) {
			t.Errorf("%s, the variable of %s, is taken for one that Kubernetes sets", name, k.Path)
		}
		seen[name] = k.Path
		if k.Flag == "" {
			continue
		}
		if other := seen["--"+k.Flag]; other != "" {
			t.Errorf("--%s is the flag of %s and of %s", k.Flag, k.Path, other)
		}
		seen["--"+k.Flag] = k.Path
		if k.Usage == "" || !k.Bool && !strings.Contains(k.Usage, "{") {
			t.Errorf("the usage of --%s, %q, does not name its value", k.Flag, k.Usage)
		}
	}
	if len(seen) < 30 {
		t.Errorf("%d keys", len(seen))
	}
}

func TestSource(t *testing.T) {
	c := &Config{sources: map[string]string{"upstreams": "a.yaml:1", "upstreams[1]": "a.yaml:3", "cache.fresh": "--x"}}
	for path, want := range map[string]string{
		"upstreams": "a.yaml:1", "upstreams[0].host": "a.yaml:1", "upstreams[1]": "a.yaml:3", "upstreams[1].token": "a.yaml:3",
		"cache.fresh": "--x", "cache.missing": "default", "listen": "default",
	} {
		if got := c.Source(path); got != want {
			t.Errorf("%s comes from %s, want %s", path, got, want)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for s, ok := range map[string]bool{
		"https://modules.example.com": true, "http://[::1]:8080/x/": true, "HTTPS://a.example": true,
		"": false, "modules.example.com": false, "ftp://a.example": false, "https://": false, "https:a.example": false, "https://:80": false,
		"https://u@a.example": false, "https://a.example?": false, "https://a.example/?x": false, "https://a.example#": false,
		"https://a.example:99999": false, "https://a.example:80a": false,
	} {
		if err := CheckURL(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestLocalURL(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80", ":80": "http://localhost:80", "0.0.0.0:80": "http://localhost:80", "[::]:80": "http://localhost:80",
		"[::1]:80": "http://[::1]:80", "127.0.0.1:0": "", "80": "", "127.0.0.1:x": "",
	} {
		c := &Config{Listen: listen}
		if got, err := c.LocalURL(); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v; want %s", listen, got, err, want)
		}
	}
	c := &Config{Listen: ":443", TLS: TLS{CertFile: "cert.pem"}, PublicURL: "https://modules.example.com/x/"}
	if got, err := c.LocalURL(); err != nil || got != "https://localhost:443" {
		t.Errorf("with TLS: %s, %v", got, err)
	}
	if got, err := c.BaseURL(); err != nil || got != "https://modules.example.com/x" {
		t.Errorf("public: %s, %v", got, err)
	}
}

// TestListsFromVariables: a list from a variable has the texts between its commas, regardless of their meaning in YAML.
func TestListsFromVariables(t *testing.T) {
	for text, want := range map[string]string{
		"a.example": "[a.example]", "a.example, 10.0.0.0/8": "[a.example, 10.0.0.0/8]", "[a.example, 'b.example']": "[a.example, b.example]",
		"*x": `["*x"]`, "true, 8": `["true", "8"]`, "[]": "[]",
	} {
		c, err := Read("", []string{"MODPROXY_EGRESS_ALLOW=" + text}, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := get(t, c, "egress.allow"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
