package config

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
)

// commentColumn is where comments begin, unless the line is longer.
const commentColumn = 44

// Print writes c as a configuration file that can be read again, but for its secrets,
// with the source of each key beside it.
func (c *Config) Print(w io.Writer) error {
	var out strings.Builder
	groups := "" // of the last key
	for _, k := range c.keys() {
		indent, name := "", k.Path
		if i := strings.LastIndex(k.Path, "."); i >= 0 {
			indent, name = "  ", k.Path[i+1:]
			if group := k.Path[:i]; group != groups {
				out.WriteString(group + ":\n")
				groups = group
			}
		}
		first, rest, more := strings.Cut(yamlText(k.value), "\n")
		line := indent + name + ": " + first
		if more || strings.HasPrefix(first, "- ") {
			line, rest = indent+name+":", first+"\n"+rest
		}
		fmt.Fprintf(&out, "%s%s  # %s\n", line, strings.Repeat(" ", max(0, commentColumn-utf8.RuneCountInString(line))), c.Source(k.Path))
		for entry := range strings.Lines(strings.TrimSuffix(rest, "\n")) {
			out.WriteString(indent + "  " + strings.TrimSuffix(entry, "\n") + "\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Described is a key for programs.
type Described struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// Describe returns every key of c by its path, with its value and source.
func (c *Config) Describe() (map[string]Described, error) {
	all := map[string]Described{}
	for _, k := range c.keys() {
		var value any
		if err := yaml.Unmarshal(marshal(k.value), &value); err != nil {
			return nil, err
		}
		all[k.Path] = Described{value, c.Source(k.Path)}
	}
	return all, nil
}

// yamlText returns v as YAML without a newline at its end. Of the entries of a list of
// groups it has what is set, without secrets that are read from a file.
func yamlText(v reflect.Value) string {
	var text []byte
	if isList(v.Type()) && v.Len() > 0 {
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		for i := range list.Len() {
			group := list.Index(i)
			for f := range group.Type().Fields() {
				if fileOf(f, group) != "" {
					group.FieldByIndex(f.Index).SetZero()
				}
			}
		}
		text = marshal(list, yaml.OmitEmpty(), yaml.OmitZero())
	} else {
		text = marshal(v, yaml.Flow(true))
	}
	return strings.TrimSuffix(string(text), "\n")
}

func marshal(v reflect.Value, options ...yaml.EncodeOption) []byte {
	text, err := yaml.MarshalWithOptions(v.Interface(), append(options,
		yaml.CustomMarshaler(func(d time.Duration) ([]byte, error) { return []byte(FormatDuration(d)), nil }),
		yaml.CustomMarshaler(func(s string) ([]byte, error) { return quote(typed(s)), nil }),
		yaml.CustomMarshaler(func(s auth.Scope) ([]byte, error) { return quote(typedScope(s)), nil }),
		yaml.CustomMarshaler(func(s egress.Secret) ([]byte, error) {
			if s.IsZero() {
				return quote(""), nil
			}
			return quote(s.String()), nil
		}),
	)...)
	if err != nil {
		panic(err) // no value of a Config has one
	}
	return text
}

var plain = regexp.MustCompile(`^[\pL\d_./:*@=+ -]+$`)

// quote returns s as YAML on one line. The library alone leaves some texts bare that do
// not read the same in a list.
func quote(s string) []byte {
	if text, err := yaml.Marshal(s); err == nil && string(text) == s+"\n" && plain.MatchString(s) {
		return []byte(s)
	}
	return []byte(strconv.Quote(s))
}

// typed returns s, which may be a normalised hostname, as it would be typed: nobody may
// type punycode.
func typed(s string) string {
	if shown := hostname.Display(s); shown != s {
		if again, err := hostname.Parse(shown); err == nil && again == s {
			return shown
		}
	}
	return s
}

func typedScope(s auth.Scope) string {
	if s == auth.Everything {
		return s.String()
	}
	return typed(s.Host) + "/" + s.Namespace
}
