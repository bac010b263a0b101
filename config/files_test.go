package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// config.example.yaml has every key, and each with its default.
func TestExample(t *testing.T) {
	const name = "../config.example.yaml"
	c, sources, err := Load(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defaults := keysOf(Default())
	for i, k := range keysOf(c) {
		if sources.Of(k.path).Name != name {
			t.Errorf("%s is missing", k.path)
		}
		if diff := cmp.Diff(plain(defaults[i].value), plain(k.value)); diff != "" {
			t.Errorf("%s: -default +example\n%s", k.path, diff)
		}
		if isList(k.value) {
			checkExample(t, example, k.path, k.value.Type().Elem())
		}
	}
}

// checkExample looks for the keys of the entries of a list.
func checkExample(t *testing.T, example []byte, path string, element reflect.Type) {
	for f := range element.Fields() {
		if !regexp.MustCompile(`(?m)^[ #-]*` + keyName(f) + `:( |$)`).Match(example) {
			t.Errorf("%s[].%s is missing", path, keyName(f))
		}
		if f.Type.Kind() == reflect.Slice && isGroup(f.Type.Elem()) {
			checkExample(t, example, path+"[]."+keyName(f), f.Type.Elem())
		}
	}
}

// What is commented out in config.example.yaml is right when it is not.
func TestExampleComments(t *testing.T) {
	example, err := os.ReadFile("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^( *)(routes|credentials|issuers): \[\]$`).ReplaceAllString(string(example), "$1$2:")
	text = regexp.MustCompile(`(?m)^#(  +(- )?[a-z_]+:( |$))`).ReplaceAllString(text, "$1")
	text = strings.Replace(text, "required: false", "required: true", 1) // else no issuer counts
	text = strings.Replace(text, `  # - host: "*"`, "  - host: \"*\"\n  - host: registry.acme.example", 1)
	c, sources, err := Read(writeFile(t, "modproxy.yaml", text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if problems := check(c, sources); len(problems) > 0 {
		t.Error(problems)
	}
	if len(c.Routes) != 1 || len(c.Credentials) != 1 || len(c.Upstreams) != 4 || len(c.Auth.Issuers) != 1 || len(c.Auth.Issuers[0].Groups) != 1 {
		t.Errorf("%d routes, %d credentials, %d upstreams, issuers %v; want 1, 1, 4, 1 with 1 group",
			len(c.Routes), len(c.Credentials), len(c.Upstreams), c.Auth.Issuers)
	}
}

// The comments on Config and its parts are the reference: each key has one, and it
// tells the default.
func TestReference(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	doc := map[string]string{} // Type.Field
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			doc[spec.Name.Name+"."+f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
		return false
	})
	var walk func(v reflect.Value, required bool)
	walk = func(v reflect.Value, inList bool) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, field := v.Type().Name()+"."+f.Name, v.Field(i)
			text := doc[name]
			want := "Default: " + yamlText(field)
			switch {
			case isGroup(f.Type):
				walk(field, false)
				continue
			case inList:
				want = "Default: empty"
				if kind := f.Type.Kind(); kind == reflect.Int || kind == reflect.Bool {
					want = "Default: " + yamlText(field)
				}
				if strings.HasSuffix(text, "Required.") {
					want = "Required."
				}
			case f.Type.Kind() == reflect.Slice, field.IsZero() && f.Type.Kind() == reflect.String:
				want = "Default: "
			}
			if !strings.HasPrefix(text, f.Name) || !strings.Contains(text, want) {
				t.Errorf("the comment on %s, %q, must begin with its name and say %q", name, text, want)
			}
			if isList(field) {
				walk(reflect.New(f.Type.Elem()).Elem(), true)
			}
		}
	}
	walk(reflect.ValueOf(Default()).Elem(), false)
}

// The image and docker-compose.yml configure modproxy so that it starts, asks
// clients for a credential, and itself, for its health, where it listens.
func TestContainer(t *testing.T) {
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	image := regexp.MustCompile(`MODPROXY_[A-Z_]+=\S+`).FindAllString(withoutComments(string(dockerfile)), -1)
	if len(image) == 0 {
		t.Fatal("the Dockerfile sets no variables")
	}

	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if want := "FROM golang:" + string(language[1]) + "-alpine AS build\n"; !strings.Contains(string(dockerfile), want) {
		t.Errorf("the Dockerfile does not build with the Go of go.mod: want %q", want)
	}

	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Build       string
			Ports       []string
			Environment map[string]string
			Volumes     []string
			Healthcheck struct{ Test []string }
			GracePeriod string `yaml:"stop_grace_period"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	s := compose.Services["modproxy"]
	variables := slices.Clone(image)
	for name, value := range s.Environment {
		variables = append(variables, name+"="+value)
	}
	c, _, err := Load("", variables, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !c.RequiresToken() {
		t.Error("the container is open to everybody without being told to")
	}
	if base, err := c.LocalURL(); err != nil || base != "http://localhost:8080" {
		t.Errorf("the container asks itself at %s, %v", base, err)
	}
	if !slices.Equal(s.Ports, []string{"127.0.0.1:8080:8080"}) || !slices.Equal(s.Volumes, []string{"data:" + c.Data}) {
		t.Errorf("ports %q, volumes %q", s.Ports, s.Volumes)
	}
	if _, ok := compose.Volumes["data"]; !ok || !slices.Equal(s.Healthcheck.Test, []string{"CMD", "modproxy", "health"}) {
		t.Errorf("volumes %v, health check %q", compose.Volumes, s.Healthcheck.Test)
	}
}

func withoutComments(dockerfile string) string {
	return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(dockerfile, "")
}
