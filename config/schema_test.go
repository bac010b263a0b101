package config

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	diff "github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/auth"
)

const schemaFile = "schema.json"

// TestSchema derives schema.json from the fields of Config, their comments and tags; go test -update writes it. The module in tools
// validates configurations against it.
func TestSchema(t *testing.T) {
	s := schemas{comments(t)}
	root := s.group(reflect.ValueOf(Default()).Elem())
	root.Schema, root.Title, root.Type = "http://json-schema.org/draft-07/schema#", "Configuration of modproxy", []string{"object", "null"}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(root); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, text.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff.Diff(string(is), text.String()); diff != "" {
		t.Fatalf("%s: -is +derived (go test -update writes it)\n%s", schemaFile, diff)
	}
}

// schema is a JSON Schema.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        []string           `json:"type,omitempty"`
	Enum        []any              `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	MinLength   int                `json:"minLength,omitempty"`
	MaxLength   int                `json:"maxLength,omitempty"`
	MinItems    int                `json:"minItems,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Additional  *bool              `json:"additionalProperties,omitempty"`
	Default     any                `json:"default,omitempty"`
	Examples    []any              `json:"examples,omitempty"`
}

// schemas makes schemas with these comments as descriptions.
type schemas struct{ comments map[string]string }

// group returns the schema of a group of keys. A key without a value is allowed, because it has its default.
func (s schemas) group(v reflect.Value) *schema {
	out := &schema{Type: []string{"object"}, Properties: map[string]*schema{}, Additional: new(bool)}
	for f := range v.Type().Fields() {
		if name := keyName(f); name != "" {
			key := s.key(f, v.FieldByIndex(f.Index))
			key.Description = sentence(s.comments, v.Type(), f)
			key.Type = append(key.Type, "null")
			out.Properties[name] = key
		}
	}
	return out
}

// key returns the schema of the field f with its default.
func (s schemas) key(f reflect.StructField, value reflect.Value) *schema {
	if isGroup(f.Type) {
		return s.group(value)
	}
	out := s.value(f.Type)
	for word := range strings.SplitSeq(f.Tag.Get("words"), ",") {
		if word != "" {
			out.Enum = append(out.Enum, word)
		}
	}
	if out.Enum != nil {
		out.Enum = append(out.Enum, nil)
	}
	for rule := range strings.SplitSeq(f.Tag.Get("check"), ",") {
		switch {
		case rule == "positive" && f.Type.Kind() == reflect.Int:
			out.Minimum = new(1)
		case rule == "natural" && f.Type.Kind() == reflect.Int:
			out.Minimum = new(0)
		case rule == "required" && f.Type.Kind() == reflect.Slice:
			out.MinItems = 1
		case rule == "required":
			out.MinLength = 1
		case rule == "url":
			out.Pattern = `^(https?://[^?#]+)?$`
		case rule == "line":
			out.MaxLength = maxLine
		}
	}
	if text := f.Tag.Get("default"); text != "" {
		out.Default = plainValue(yamlText(value))
	}
	if text := f.Tag.Get("example"); text != "" {
		out.Examples = []any{plainValue(text)}
	}
	return out
}

// value returns the schema of the values of a type that is not a group.
func (s schemas) value(t reflect.Type) *schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &schema{Type: []string{"string"}, Pattern: `^([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$`, MinLength: 1}
	case reflect.TypeFor[ByteSize]():
		return &schema{Type: []string{"string"}, Pattern: `^[0-9]+(B|KiB|MiB|GiB|TiB)$`}
	case reflect.TypeFor[auth.Scope]():
		return &schema{Type: []string{"string"}, Pattern: `^(\*|[^/\s]+/[^/\s]+)$`}
	case reflect.TypeFor[netip.Prefix]():
		return &schema{Type: []string{"string"}, Pattern: `^[0-9A-Fa-f.:]+(/[0-9]+)?$`}
	case reflect.TypeFor[Anonymous]():
		return &schema{Type: []string{"boolean", "array"}, MinItems: 1, Items: s.value(reflect.TypeFor[auth.Scope]())}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &schema{Type: []string{"boolean"}}
	case reflect.Int:
		return &schema{Type: []string{"integer"}}
	case reflect.Slice:
		items := s.value(t.Elem())
		if isList(t) {
			items = s.group(reflect.New(t.Elem()).Elem())
		}
		return &schema{Type: []string{"array"}, Items: items}
	}
	return &schema{Type: []string{"string"}} // a string, or a type with a text
}

// plainValue returns the value of YAML.
func plainValue(text string) (value any) {
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		panic(err) // of a tag
	}
	return value
}
