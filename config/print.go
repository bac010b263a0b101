package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
)

// printer collects a configuration as lines of YAML.
type printer struct {
	sources *Sources
	lines   []printedLine
}

type printedLine struct{ text, comment string }

// maxAligned is the width up to which comments stand in one column.
const maxAligned = 60

// Print writes c as a configuration file that can be read again, but for
// its secrets, with the source of each line beside it.
func Print(w io.Writer, c *Config, sources *Sources) error {
	p := &printer{sources: sources}
	p.keys("", "", reflect.ValueOf(c).Elem())
	width := 0
	for _, l := range p.lines {
		if n := utf8.RuneCountInString(l.text); n <= maxAligned {
			width = max(width, n)
		}
	}
	var out bytes.Buffer
	for _, l := range p.lines {
		if l.comment == "" {
			fmt.Fprintln(&out, l.text)
		} else {
			fmt.Fprintf(&out, "%-*s  # %s\n", width, l.text, l.comment)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

func (p *printer) line(text, path string) {
	p.lines = append(p.lines, printedLine{text, p.sources.Of(path).String()})
}

func (p *printer) keys(indent, path string, v reflect.Value) {
	for i := range v.NumField() {
		name, field := keyName(v.Type().Field(i)), v.Field(i)
		at := joinKey(path, name)
		switch {
		case isGroup(field.Type()):
			p.lines = append(p.lines, printedLine{text: indent + name + ":"})
			p.keys(indent+"  ", at, field)
		case isList(field) && field.Len() > 0:
			p.line(indent+name+":", at)
			for j := range field.Len() {
				p.element(indent+"  ", fmt.Sprintf("%s[%d]", at, j), field.Index(j))
			}
		default:
			p.line(indent+name+": "+yamlText(field), at)
		}
	}
}

// element writes what was set of one entry of a list of groups.
func (p *printer) element(indent, path string, v reflect.Value) {
	dash := "- "
	for i := range v.NumField() {
		name, field := keyName(v.Type().Field(i)), v.Field(i)
		at := joinKey(path, name)
		switch {
		case i > 0 && (field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0) || readFromFile(v, name):
			continue
		case isList(field):
			p.line(indent+dash+name+":", at)
			for j := range field.Len() {
				p.element(indent+"    ", fmt.Sprintf("%s[%d]", at, j), field.Index(j))
			}
		default:
			p.line(indent+dash+name+": "+yamlText(field), at)
		}
		dash = "  "
	}
}

// isList reports whether v is a list of groups.
func isList(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && isGroup(v.Type().Elem())
}

// readFromFile reports whether the field name of v is a secret whose _file twin
// is set: that says more.
func readFromFile(v reflect.Value, name string) bool {
	for i := range v.NumField() {
		if keyName(v.Type().Field(i)) == name+"_file" {
			return !v.Field(i).IsZero()
		}
	}
	return false
}

// yamlText is v on one line of YAML.
func yamlText(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		entries := make([]string, v.Len())
		for i := range entries {
			entries[i] = yamlText(v.Index(i))
		}
		return "[" + strings.Join(entries, ", ") + "]"
	}
	text, ok := plain(v).(string)
	if !ok {
		return fmt.Sprint(plain(v))
	}
	encoded, err := yaml.Marshal(text)
	line := strings.TrimSuffix(string(encoded), "\n")
	if err != nil || strings.ContainsAny(line, "\n\t,[]{}#") {
		var quoted bytes.Buffer
		out := json.NewEncoder(&quoted)
		out.SetEscapeHTML(false)
		out.Encode(text) // a string always can be, and a buffer takes everything
		return strings.TrimSuffix(quoted.String(), "\n")
	}
	return line
}

// plain is v as text, number, truth value, list or map, in the form in which it
// would be configured, secrets redacted.
func plain(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case egress.Secret:
		if value.IsZero() {
			return ""
		}
		return value.String()
	case time.Duration:
		return FormatDuration(value)
	case ByteSize:
		return value.String()
	}
	switch v.Kind() {
	case reflect.String:
		return typed(v.String())
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Struct:
		group := map[string]any{}
		for i := range v.NumField() {
			group[keyName(v.Type().Field(i))] = plain(v.Field(i))
		}
		return group
	}
	return v.Interface()
}

// typed is s, which may be a normalised hostname, as it would be typed: nobody may
// type punycode.
func typed(s string) string {
	if shown := hostname.Display(s); shown != s {
		if again, err := hostname.Parse(shown); err == nil && again == s {
			return shown
		}
	}
	return s
}

// Described is a key for programs.
type Described struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

func Describe(c *Config, sources *Sources) map[string]Described {
	all := map[string]Described{}
	for _, k := range keysOf(c) {
		all[k.path] = Described{plain(k.value), sources.Of(k.path).String()}
	}
	return all
}
