package config

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decodeText decodes text as a file, on top of the defaults.
func decodeText(text []byte) (*Config, Error) {
	c := Default()
	d := &decoder{config: c, name: "modproxy.yaml", lines: true}
	d.decode(text, reflect.ValueOf(c).Elem(), "")
	return c, append(d.wrong, c.check().wrong...)
}

// FuzzConfig: any file results in an error or a configuration. The printed configuration reads back the same.
func FuzzConfig(f *testing.F) {
	example, err := os.ReadFile("../config.example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		string(example), "", "# nothing", "listen: :8080\nanonymous: true", "data: \"a\\nb\"", "data: |\n  a\n  b\n", "? data\n: x", "{data: x, log: {level: warn}}",
		"upstreams: [{host: a.example, token: x, modules: 'https://a.example/'}, {host: '*'}]", "cache: {fresh: 1h1s, memory: 3KiB}",
		"egress:\n  ports: [22]\n  allow: [a.example, '10.0.0.0/8']", "a: &a [*a]", "<<: {}", "- -\n -", "data: !!binary x", "%YAML 1.2\n---\ndata: x\n...",
		"auth:\n  required: true\n  issuers:\n  - {url: https://a.example, audience: x, groups: [{name: a, match: [a=b], scopes: ['*', a.example/b]}, {name: b, values: ['#'], match: [c=d], admin: true}], login: {client: a, scopes: [b], ports: [1024, 1025]}}",
		"policy:\n  default: deny\n  contact: 'a, #b'\n  reserved: [acme-*]\n  files: [a.yaml]\n  rules:\n  - {allow: 'a.example/*/b/c', versions: '~> 1.2, != 1.3', min_age: 7d, groups: [a], approval: required}\n  - {deny: '*/*/*/x', reason: no}\n  - {allow_locked: ['*.lock']}",
		"credentials:\n- {host: a.example, username: '\"#', password: x}\nroutes:\n- {namespace: a, upstream: registry.terraform.io}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 16<<10 {
			return // the library needs long for many entries in one line
		}
		c, wrong := decodeText(text)
		if len(wrong) > 0 {
			return
		}
		var printed bytes.Buffer
		if err := c.Print(&printed); err != nil {
			t.Fatal(err)
		}
		again, wrong := decodeText(printed.Bytes())
		if len(wrong) > 0 {
			t.Fatalf("what was printed is wrong: %v\n%s", wrong, printed.String())
		}
		for i, k := range c.keys() {
			if diff := cmp.Diff(yamlText(k.value), yamlText(again.keys()[i].value)); diff != "" {
				t.Fatalf("%s: -read +printed and read\n%s\n%s", k.Path, diff, printed.String())
			}
		}
	})
}
