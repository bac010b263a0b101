package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/egress"
)

// Print writes c as "modproxy config" does.
func (c *Config) Print(w io.Writer) error {
	all, err := c.Describe()
	if err != nil {
		return err
	}
	return Print(w, all)
}

var update = flag.Bool("update", false, "write what is printed to testdata/golden")

// Two secrets that must never be shown.
const (
	inFile    = "s3cr3t-in-a-file"
	inTheOpen = "s3cr3t-in-the-open"
)

// secretConfig writes a configuration with every kind of value, including secrets, to modproxy.yaml in a new current directory.
func secretConfig(t *testing.T) (file string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"token": inFile + "\n", "modproxy.yaml": `
public_url: https://modules.example.com/registry
trusted_proxies: [10.0.0.1, 10.1.0.0/16]
upstreams:
- host: registry.terraform.io
- host: registry.acme.example
  token_file: token
- host: Bücher.example
- host: private.example:8443
  modules: https://private.example:8443/m/
  token: ` + inTheOpen + `
- host: "*"
routes:
- namespace: acme
  upstream: registry.acme.example
modules:
- {address: corp/vpc/aws, source: "git::https://git.example.com/corp/vpc.git"}
webhooks:
- {id: github, secret_file: token}
- {id: gitlab, secret: ` + inTheOpen + `}
credentials:
- host: git.example.com
  username: '#1, "the bot": {yes}'
  password: ` + inTheOpen + `
- host: archive.example.com
  password_file: token
auth:
  required: true
  issuers:
  - url: https://gitlab.example.com
    audience: modules
    groups_claim: groups
    groups:
    - name: infrastructure
      values: [infra, '#1']
      scopes: [Registry.Acme.Example/acme, "*"]
    - name: operators
      match: [user_login=root]
      admin: true
    login: {client: '#1', scopes: [openid]}
  - {url: https://ci.example.com, audience: modules, algorithms: [EdDSA]}
cache: {memory: 1536KiB, max_stale: 36h15m}
`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "modproxy.yaml"
}

// TestGolden compares the output of "modproxy config"; go test -update writes it.
func TestGolden(t *testing.T) {
	dir, err := filepath.Abs(filepath.Join("testdata", "golden"))
	if err != nil {
		t.Fatal(err)
	}
	file := secretConfig(t)
	variables := []string{"MODPROXY_CONFIG=" + file, "MODPROXY_FETCH_AT_ONCE=2", `MODPROXY_EGRESS_ALLOW=["10.0.0.0/8"]`}
	c, err := Load("", variables, []Flag{{"offline", "false"}})
	if err != nil {
		t.Fatal(err)
	}
	var text, asJSON bytes.Buffer
	if err := c.Print(&text); err != nil {
		t.Fatal(err)
	}
	out := json.NewEncoder(&asJSON)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	described, err := c.Describe()
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Encode(described); err != nil {
		t.Fatal(err)
	}
	if len(described) != len(Keys()) {
		t.Errorf("%d keys are described, want %d", len(described), len(Keys()))
	}
	for name, got := range map[string]string{"config.yaml": text.String(), "config.json": asJSON.String()} {
		if strings.Contains(got, "s3cr3t") {
			t.Errorf("%s shows a secret", name)
		}
		name = filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestConfigPrintedIsConfig: a printed configuration can be read again.
func TestConfigPrintedIsConfig(t *testing.T) {
	file := secretConfig(t)
	c, err := Load(file, []string{"MODPROXY_EGRESS_PORTS=[8443]"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := c.Print(&printed); err != nil {
		t.Fatal(err)
	}
	again, err := Load(writeFile(t, "again.yaml", printed.String()), nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, printed.String())
	}
	for i, k := range c.keys() {
		if diff := cmp.Diff(yamlText(k.value), yamlText(again.keys()[i].value)); diff != "" {
			t.Errorf("%s: -printed +read again\n%s", k.Path, diff)
		}
		if again.Source(k.Path) == "default" {
			t.Errorf("%s was not printed", k.Path)
		}
	}
}

// TestNoSecretShown: no output and no error shows the secrets of a configuration.
func TestNoSecretShown(t *testing.T) {
	file := secretConfig(t)
	c, err := Load(file, []string{"MODPROXY_EGRESS_PORTS=[8443]"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v", *c, *c), fmt.Sprintf("%q %x", c.Upstreams[2].Token, c.Upstreams[2].Token), string(encoded)} {
		if strings.Contains(shown, "s3cr3t") || strings.Contains(shown, fmt.Sprintf("%x", "s3cr3t")) {
			t.Errorf("secret shown: %s", shown)
		}
	}
	for _, wrong := range []string{
		"upstreams: [{host: a.example, tokn: s3cr3t}]",
		"upstreams: [{host: a.example, token: [s3cr3t]}]",
		"upstreams: [{host: a.example, token: {s3cr3t: 1}}]",
		"upstreams: [{host: a.example, token: !s3cr3t x}]",
		"upstreams: [{host: a.example, token: !!s3cr3t }]",
		"upstreams: [{host: a.example, token: &s3cr3t }]",
		"upstreams: [{host: a.example, token: *s3cr3t }]",
		"upstreams: [{host: a.example, token: \"s3cr3t}]",
		"upstreams:\n- host: a.example\n  token: s3cr3t: x",
		"upstreams:\n- host: a.example\n  token: 's3cr3t' s3cr3t",
		"upstreams:\n- host: a.example\n  token: x\n  token: s3cr3t",
		"upstreams:\n- host: a.example\n  token: @s3cr3t",
		"upstreams:\n- host: a.example\n  token: `s3cr3t",
		"upstreams:\n- host: a.example\n  token: |9s3cr3t\n  x",
		"upstreams: [{host: '*', token: s3cr3t}]",
		"upstreams: [{host: u:s3cr3t@a.example}]",
		"upstreams: [{host: a.example, modules: 'https://u:s3cr3t@a.example/'}]",
		"upstreams: [{host: a.example, modules: 'https://a.example/?token=s3cr3t'}]",
		"upstreams: [{host: a.example, modules: 'https://u:s3cr3t@a.example:x'}]",
		"public_url: https://u:s3cr3t@a.example",
		"egress: {allow: ['https://u:s3cr3t@a.example']}",
		"credentials: [{host: git.example.com, ssh_key_file: x, passwrd: s3cr3t}]",
		"webhooks: [{id: github, secret: s3cr3t}]",
		"webhooks: [{id: github, secret: s3cr3t, secret_file: x}]",
	} {
		for _, err := range []error{
			loadError(Load(writeFile(t, "wrong.yaml", wrong), nil, nil)),
			loadError(Load("", []string{"MODPROXY_UPSTREAMS=" + strings.TrimPrefix(wrong, "upstreams: ")}, nil)),
		} {
			if err == nil || strings.Contains(messages(err), "s3cr3t") {
				t.Errorf("%s\n%v", wrong, err)
			}
		}
	}
}

func loadError(_ *Config, err error) error { return err }

// TestSecretTwins: every secret can be in a file of its own, and that file is read.
func TestSecretTwins(t *testing.T) {
	file := secretConfig(t)
	c, err := Load(file, []string{"MODPROXY_EGRESS_PORTS=[8443]"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range c.keys() {
		if !isList(k.value.Type()) {
			continue
		}
		element := k.value.Type().Elem()
		for i := range element.NumField() {
			if element.Field(i).Type != reflect.TypeFor[egress.Secret]() {
				continue
			}
			twin, ok := element.FieldByName(element.Field(i).Name + "File")
			if !ok || keyName(twin) != keyName(element.Field(i))+"_file" {
				t.Errorf("%s.%s has no _file", k.Path, keyName(element.Field(i)))
				continue
			}
			read := false
			for j := range k.value.Len() {
				entry := k.value.Index(j)
				secret := entry.Field(i).Interface().(egress.Secret)
				read = read || entry.FieldByIndex(twin.Index).String() != "" && secret.Reveal() == inFile
			}
			if !read {
				t.Errorf("%s[].%s is not read", k.Path, keyName(twin))
			}
		}
	}
}

// TestPrintText: every printed text reads back the same, alone and in lists.
func TestPrintText(t *testing.T) {
	for _, s := range []string{
		"8", "true", "~", "null", "0123", "1e3", "a, b", "a]", "[a", "{a}", "a: b", "a #b", "#a", "'a", `"a`, `a\b`, "a\nb", "a\n", "\na", "\ta", " a", "a ", "*a", "&a", "!a", "- a", "-", "?", "|", ">", "%a", "@a", "`a", "a\u2028b", "a\u0085b", "\ufeffa", "2020-01-01", "=", "<<", "a\x00b", "a\x1bb", "a\r\nb",
	} {
		c := Default()
		c.Data, c.Egress.Allow = s, []string{s, "x"}
		c.Routes = []Route{{Namespace: s, Upstream: "registry.terraform.io"}}
		var printed strings.Builder
		if err := c.Print(&printed); err != nil {
			t.Fatal(err)
		}
		again, err := Read(writeFile(t, "again.yaml", printed.String()), nil, nil)
		if err != nil || again.Data != s || again.Egress.Allow[0] != s || again.Routes[0].Namespace != s {
			t.Errorf("%q: %v", s, err)
		}
	}
}
