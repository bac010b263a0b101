package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
)

const referenceFile = "../docs/reference/configuration.md"

const referenceHead = `<!-- go test ./config -run TestReference -update writes this page. -->

# Configuration

modproxy runs without a configuration. Keys are set in a YAML file (` + "`--config`" + `, or the variable ` + "`MODPROXY_CONFIG`" + `), in environment
variables, and the most used ones by flags. Flags override variables, variables override the file, and the file overrides the
defaults, key by key.

- **Variables.** The variable of ` + "`cache.fresh`" + ` is ` + "`MODPROXY_CACHE_FRESH`" + `, and so on. Lists take commas, or YAML.
- **Units.** Times have units (30s, 5m, 720h), and sizes too (512KiB, 64MiB, 50GiB).
- **Paths.** A relative path starts at the working directory of modproxy.
- **Secrets.** Each key with a secret has a twin that names a file with it: ` + "`token` and `token_file`" + `.

` + "`modproxy config init`" + ` writes a file to start from, and [config.example.yaml](../../config.example.yaml) has all keys and texts of this page.
` + "`modproxy config`" + ` prints the values that ` + "`serve`" + ` would use and where each was set, ` + "`modproxy config show`" + ` those of a running modproxy.
` + "`modproxy config check`" + ` reports mistakes with key, file and line.

Editors with a YAML language server complete keys and mark mistakes: write the schema with ` + "`modproxy config schema > modproxy.schema.json`" + ` beside
the configuration, and begin the configuration with this line:

` + "```yaml" + `
# yaml-language-server: $schema=modproxy.schema.json
` + "```" + `
`

// guides are the pages on the task that a group or a key is for.
var guides = map[string]string{
	"auth":            "[Tokens](../how-to/tokens.md)",
	"auth.issuers":    "[Log in](../how-to/login.md)",
	"tls":             "[TLS](../how-to/tls.md)",
	"trusted_proxies": "[Reverse proxy](../how-to/reverse-proxy.md)",
	"upstreams":       "[Private registries](../how-to/private-registries.md)",
	"sources":         "[Mirrored forges](../how-to/mirrored-forges.md)",
	"egress":          "[Outgoing connections](../how-to/egress.md)",
	"cache.max_size":  "[Disk full](../how-to/disk-full.md)",
	"ledger":          "[Changed content](../how-to/changed-content.md)",
	"policy":          "[Change a policy](../how-to/change-a-policy.md), [Version age](../explanation/version-age.md)",
	"policy.rules":    "[Policy rules](policy.md)",
	"providers":       "[Providers](../how-to/providers.md)",
	"rewrite.nested":  "[Nested sources](../how-to/nested-sources.md)",
	"bundle":          "[Bundles](../how-to/bundles.md)",
	"mirror":          "[Mirror](../how-to/mirror.md)",
	"offline":         "[Offline](../how-to/offline.md)",
	"log":             "[Log events](log-events.md)",
	"fetch":           "[Package sources](package-sources.md)",
}

// TestReference derives docs/reference/configuration.md from the fields of Config, their comments and tags; go test -update writes it.
func TestReference(t *testing.T) {
	r := &reference{comments: comments(t), unused: map[string]bool{}}
	for path := range guides {
		r.unused[path] = true
	}
	r.WriteString(referenceHead)
	r.group("", reflect.ValueOf(Default()).Elem())
	for path := range r.unused {
		t.Errorf("guides has %s, which is no key", path)
	}
	if *update {
		if err := os.WriteFile(referenceFile, []byte(r.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff.Diff(string(text), r.String()); diff != "" {
		t.Fatalf("%s: -is +derived (go test -update writes it)\n%s", referenceFile, diff)
	}
}

// reference writes the page, and removes from unused the guides that it has written.
type reference struct {
	strings.Builder
	comments map[string]string
	unused   map[string]bool
}

// group writes the keys of v, whose paths begin with path.
func (r *reference) group(path string, v reflect.Value) {
	for f := range v.Type().Fields() {
		name, field := keyName(f), v.FieldByIndex(f.Index)
		if name == "" {
			continue
		}
		key := joinKey(path, name)
		level := "###"
		if path == "" {
			level = "##"
		}
		fmt.Fprintf(r, "\n%s `%s`\n\n%s\n", level, key, r.text(v.Type(), f))
		if guide, ok := guides[key]; ok {
			fmt.Fprintf(r, "\nSee %s.\n", guide)
			delete(r.unused, key)
		}
		if isGroup(f.Type) {
			r.group(key, field)
			continue
		}
		r.attributes(f, field)
		if isList(f.Type) {
			r.group(key+"[]", reflect.New(f.Type.Elem()).Elem())
		}
	}
}

// sentence returns the comment of the field f of t, or of its type, as a sentence.
func sentence(comments map[string]string, t reflect.Type, f reflect.StructField) string {
	text := copula.ReplaceAllString(cmp.Or(comments[t.Name()+"."+f.Name], comments[f.Type.Name()]), "")
	return strings.ToUpper(text[:1]) + text[1:]
}

// text returns the sentence of the field f of t in Markdown.
func (r *reference) text(t reflect.Type, f reflect.StructField) string {
	text := strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`).Replace(sentence(r.comments, t, f))
	return wrapped("", commandInText.ReplaceAllString(text, "`$1`"), 120)
}

var commandInText = regexp.MustCompile(`"((?:modproxy|terraform|tofu) [^"]*)"`)

// attributes writes the default of a key, an example, and its flag.
func (r *reference) attributes(f reflect.StructField, value reflect.Value) {
	var all []string
	text, of := yamlText(value), "default"
	if example := f.Tag.Get("example"); example != "" {
		text, of = example, "example"
	}
	if isList(f.Type) && value.Len() > 0 {
		text = f.Tag.Get("default")
	}
	if text != "" && text != `""` && text != "[]" {
		all = append(all, fmt.Sprintf("%s `%s`", of, text))
	}
	if flag := f.Tag.Get("flag"); flag != "" {
		all = append(all, fmt.Sprintf("flag `--%s`", flag))
	}
	if len(all) == 0 {
		return
	}
	line := strings.Join(all, " · ")
	fmt.Fprintf(r, "\n%s\n", strings.ToUpper(line[:1])+line[1:])
}
