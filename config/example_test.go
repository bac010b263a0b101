package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
)

const exampleFile = "../config.example.yaml"

const exampleHead = `# Configuration of modproxy: every key, with its default. modproxy runs without this
# file; keep only what you change. Variables (MODPROXY_CACHE_FRESH for cache.fresh;
# lists take commas, or YAML) and flags set keys, too.
#
#   modproxy serve --config modproxy.yaml    or MODPROXY_CONFIG=modproxy.yaml
#   modproxy config                          prints the values in force and their sources
#   modproxy config check                    checks the configuration
`

// TestExample derives config.example.yaml from the fields of Config, their comments and tags; go test -update writes it.
func TestExample(t *testing.T) {
	e := &example{comments: comments(t)}
	e.WriteString(exampleHead)
	e.group("", "", reflect.ValueOf(Default()).Elem())
	if *update {
		if err := os.WriteFile(exampleFile, []byte(e.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff.Diff(string(text), e.String()); diff != "" {
		t.Fatalf("%s: -is +derived (go test -update writes it)\n%s", exampleFile, diff)
	}
	c, err := Load(exampleFile, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defaults := Default().keys()
	for i, k := range c.keys() {
		if !strings.HasPrefix(c.Source(k.Path), exampleFile) {
			t.Errorf("%s is missing", k.Path)
		}
		if diff := diff.Diff(yamlText(defaults[i].value), yamlText(k.value)); diff != "" {
			t.Errorf("%s: -default +example\n%s", k.Path, diff)
		}
	}
}

// comments returns the comment of each field, by Type.Field, and of each type.
func comments(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"config.go", "../auth/oidc/issuer.go", "../auth/oidc/login.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		addComments(t, file, all)
	}
	return all
}

func addComments(t *testing.T, file *ast.File, all map[string]string) {
	t.Helper()
	docs := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.TYPE {
			docs[d.Specs[0].(*ast.TypeSpec).Name.Name] = d.Doc.Text()
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		all[spec.Name.Name] = strings.TrimPrefix(strings.Join(strings.Fields(docs[spec.Name.Name]), " "), spec.Name.Name+" ")
		for _, f := range fields.Fields.List {
			if group, ok := f.Type.(*ast.Ident); ok && f.Doc == nil && f.Names[0].Name == group.Name {
				continue // the group's type has the comment
			}
			name, text := f.Names[0].Name, strings.Join(strings.Fields(f.Doc.Text()), " ")
			if rest, ok := strings.CutPrefix(text, name+" "); ok && strings.HasSuffix(rest, ".") {
				all[spec.Name.Name+"."+name] = rest
			} else if f.Names[0].IsExported() {
				t.Errorf("the comment on %s.%s is no sentence that begins with its name: %q", spec.Name.Name, name, text)
			}
		}
		return false
	})
}

type example struct {
	strings.Builder
	comments map[string]string
}

var copula = regexp.MustCompile(`^(is|are) `)

// comment writes the comment of a field, wrapped.
func (e *example) comment(indent string, v reflect.Value, f reflect.StructField) {
	e.WriteString(wrapped(indent+"# ", sentence(e.comments, v.Type(), f), 90) + "\n")
}

// wrapped returns text in lines that begin with indent and have at most width bytes, unless a word is longer.
func wrapped(indent, text string, width int) string {
	var lines []string
	line := indent
	for i, word := range strings.Fields(text) {
		if i > 0 && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}

func (e *example) group(indent, path string, v reflect.Value) {
	for f := range v.Type().Fields() {
		name, field := keyName(f), v.FieldByIndex(f.Index)
		if name == "" {
			continue
		}
		if indent == "" {
			e.WriteString("\n")
		}
		e.comment(indent, v, f)
		switch {
		case isGroup(f.Type):
			e.WriteString(indent + name + ":\n")
			e.group(indent+"  ", joinKey(path, name), field)
			continue
		case isList(f.Type) && field.Len() > 0:
			e.WriteString(indent + name + ":\n")
			for line := range strings.Lines(yamlText(field) + "\n") {
				e.WriteString(indent + "  " + line)
			}
		default:
			e.WriteString(indent + name + ": " + yamlText(field) + "\n")
		}
		if isList(f.Type) {
			e.entry("#"+indent+"  ", "- ", f.Type.Elem())
		}
	}
}

// entry writes an entry of a list of groups, or a group in an entry, which has another dash. Each line begins with indent,
// which makes it a comment.
func (e *example) entry(indent, dash string, t reflect.Type) {
	v := reflect.New(t).Elem()
	for f := range t.Fields() {
		e.comment(indent+"  ", v, f)
		value := f.Tag.Get("example")
		if value == "" {
			value = yamlText(v.FieldByIndex(f.Index))
		}
		switch {
		case isList(f.Type):
			e.WriteString(fmt.Sprintf("%s%s%s:\n", indent, dash, keyName(f)))
			e.entry(indent+"    ", "- ", f.Type.Elem())
		case isGroup(f.Type):
			e.WriteString(fmt.Sprintf("%s%s%s:\n", indent, dash, keyName(f)))
			e.entry(indent+"  ", "  ", f.Type)
		default:
			e.WriteString(fmt.Sprintf("%s%s%s: %s\n", indent, dash, keyName(f), value))
		}
		dash = "  "
	}
}

// TestExampleComments: the commented-out lines of config.example.yaml are valid without the comment signs.
func TestExampleComments(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`: \[\](\n# )`).ReplaceAllString(string(text), ":$1")
	whole = regexp.MustCompile(`(?m)^#(  +(- )?[a-z_]+:( |$))`).ReplaceAllString(whole, "$1")
	whole = strings.Replace(whole, "required: false", "required: true", 1)                     // otherwise no issuer has an effect
	whole = strings.Replace(whole, `modules_host: ""`, "modules_host: modules.example.com", 1) // there is no public_url
	c, err := Read(writeFile(t, "modproxy.yaml", whole), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := c.check().wrong; len(wrong) > 0 {
		t.Error(wrong)
	}
	if len(c.Routes) != 1 || len(c.Modules) != 1 || len(c.Mirror) != 1 || len(c.Providers.Keys) != 1 || len(c.Policy.Rules) != 1 || len(c.Credentials) != 1 || len(c.Upstreams) != 3 || len(c.Auth.Issuers) != 1 || len(c.Auth.Issuers[0].Groups) != 1 || !c.Auth.Issuers[0].Login.IsSet() {
		t.Errorf("%d routes, %d mirrors, %d credentials, %d upstreams, issuers %v; want 1, 1, 1, 3, 1 with 1 group and a login",
			len(c.Routes), len(c.Mirror), len(c.Credentials), len(c.Upstreams), c.Auth.Issuers)
	}
}
