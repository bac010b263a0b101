// Package schema validates configurations against config/schema.json. It is a module of its own, so that the program needs no
// validator.
package schema

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const top = "../.."

// compiled returns the schema of "modproxy config schema".
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "config/schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json") // it validates the schema against draft 7, too
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate returns why YAML is not a configuration according to s.
func validate(s *jsonschema.Schema, text []byte) error {
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return err
	}
	plain, err := json.Marshal(value)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// blocks finds the blocks of YAML in a page, with the comment in the line before. Blocks of other programs have such a comment.
var blocks = regexp.MustCompile("(?ms)^([^\n]*)\n *```yaml\n(.*?)^ *```$")

// ofPolicy finds the keys of a file of rules, which is not a configuration.
var ofPolicy = regexp.MustCompile(`(?m)^ *(rules|reserved):`)

// placeholder finds the variables in the configurations of scripts.
var placeholder = regexp.MustCompile(`\$\{[A-Z_]+\}|\$[A-Z_]+`)

// The schema accepts every configuration of the documentation and of the scripts, and config.example.yaml with all its entries.
func TestConfigurations(t *testing.T) {
	s, n := compiled(t), 0
	try := func(name string, text []byte) {
		n++
		text = placeholder.ReplaceAllFunc(text, func(name []byte) []byte {
			if bytes.Contains(name, []byte("URL")) {
				return []byte("https://x.example")
			}
			return []byte("1h")
		})
		if err := validate(s, text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	example, err := os.ReadFile(filepath.Join(top, "config.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	try("config.example.yaml", example)
	example = regexp.MustCompile(`: \[\](\n# )`).ReplaceAll(example, []byte(":$1"))
	try("config.example.yaml with the entries in its comments", regexp.MustCompile(`(?m)^#(  +(- )?[a-z_]+:( |$))`).ReplaceAll(example, []byte("$1")))
	for _, name := range find(t, "docs", ".md") {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks.FindAllSubmatch(page, -1) {
			if !bytes.Contains(b[1], []byte("<!-- file of:")) && (!ofPolicy.Match(b[2]) || bytes.Contains(b[2], []byte("policy:"))) {
				try(name, b[2])
			}
		}
	}
	for _, name := range find(t, "cmd/modproxy/testdata/script", ".txtar") {
		script, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range script.Files {
			if file.Name == "modproxy.yaml" {
				try(name, file.Data)
			}
		}
	}
	if n < 60 {
		t.Errorf("%d configurations", n)
	}
}

// find returns the files below a directory with this ending.
func find(t *testing.T, dir, ending string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(top, dir), func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ending) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// ofYAML are the files in wrong.txtar that have a valid structure, so that only the parser of modproxy refuses them.
var ofYAML = []string{"alias", "merge", "two documents"}

// The schema refuses every file that package config refuses because of its structure.
func TestWrong(t *testing.T) {
	s := compiled(t)
	all, err := txtar.ParseFile(filepath.Join(top, "config/testdata/wrong.txtar"))
	if err != nil || len(all.Files) == 0 {
		t.Fatal(err)
	}
	for _, file := range all.Files {
		name, ok := strings.CutSuffix(file.Name, ".yaml")
		if !ok {
			continue
		}
		if err := validate(s, file.Data); (err == nil) != slices.Contains(ofYAML, name) {
			t.Errorf("%s: %v\n%s", name, err, file.Data)
		}
	}
	for _, text := range []string{
		"cache: {fresh: 5 m}", "cache: {max_size: 50GB}", "cache: {max_size: -1B}", "log: {level: loud}", "upstreams: []", "limits: {requests: 0}",
		"anonymous: []", "anonymous: all", "policy: {rules: [{alow: '*/*/*'}]}", "public_url: modules.example.com", "data: ''", "trusted_proxies: [lb.example]",
		"policy: {rules: [{approval: yes}]}", "upstreams: [{host: a.example, token: 8}]", "egress: {ports: ['22']}",
	} {
		if validate(s, []byte(text)) == nil {
			t.Errorf("valid: %s", text)
		}
	}
	for _, text := range []string{
		"", "cache:", "cache: {fresh: }", "cache: {fresh: 1d12h, max_stale: 1.5h, missing: 300ms}", "anonymous: true", "anonymous: ['*', a.example/*]",
		"public_url: ''", "auth: {issuers: [{url: 'https://a.example', audience: x, login: {client: a, ports: [1024, 1025]}}]}",
	} {
		if err := validate(s, []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
