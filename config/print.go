package config

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/policy"
)

// Described is a key with its value and source. Secrets are redacted.
type Described struct {
	Key    string   `json:"key"`
	Value  any      `json:"value"`
	Source string   `json:"source"`
	YAML   []string `json:"-"` // the lines of the value
}

// Describe returns every key of c, in the order of the fields of [Config].
func (c *Config) Describe() (all []Described, err error) {
	for _, k := range c.keys() {
		d := Described{Key: k.Path, Source: c.Source(k.Path), YAML: strings.Split(yamlText(k.value), "\n")}
		if err := yaml.Unmarshal([]byte(marshal(k.value)), &d.Value); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// Print writes keys as a file that can be read again, except for its secrets, with the source next to each key.
func Print(w io.Writer, all []Described) error {
	var out strings.Builder
	groups := "" // the group of the last key
	for _, k := range all {
		indent, name := "", k.Key
		if group, rest, ok := strings.Cut(k.Key, "."); ok {
			indent, name = "  ", rest
			if group != groups {
				out.WriteString(group + ":\n")
				groups = group
			}
		}
		first, rest := "", k.YAML
		if len(rest) > 0 && !strings.HasPrefix(rest[0], "- ") {
			first, rest = rest[0], rest[1:]
		}
		line := strings.TrimSuffix(indent+name+": "+first, " ")
		fmt.Fprintf(&out, "%-44s  # %s\n", line, k.Source)
		for _, entry := range rest {
			out.WriteString(indent + "  " + entry + "\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// yamlText returns v as YAML. It omits unset keys in entries of lists, and secrets that are read from a file.
func yamlText(v reflect.Value) string {
	options := []yaml.EncodeOption{yaml.Flow(true)}
	if isList(v.Type()) && v.Len() > 0 {
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		for i := range list.Len() {
			for f, value := range list.Index(i).Fields() {
				if fileOf(f, list.Index(i)) != "" {
					value.SetZero()
				}
			}
		}
		v, options = list, []yaml.EncodeOption{yaml.OmitEmpty(), yaml.OmitZero()}
	}
	return strings.TrimSuffix(marshal(v, options...), "\n")
}

func marshal(v reflect.Value, options ...yaml.EncodeOption) string {
	text, err := yaml.MarshalWithOptions(v.Interface(), append(options,
		yaml.CustomMarshaler(func(d time.Duration) ([]byte, error) { return []byte(FormatDuration(d)), nil }),
		yaml.CustomMarshaler(func(s string) ([]byte, error) { return quote(typed(s)), nil }),
		yaml.CustomMarshaler(func(s auth.Scope) ([]byte, error) {
			if s != auth.Everything {
				s.Host = typed(s.Host)
			}
			return quote(s.String()), nil
		}),
		yaml.CustomMarshaler(func(p policy.Pattern) ([]byte, error) { return quote(p.String()), nil }),
		yaml.CustomMarshaler(func(c modproxy.Constraint) ([]byte, error) { return quote(c.String()), nil }),
		yaml.CustomMarshaler(func(s egress.Secret) ([]byte, error) {
			if s.IsZero() {
				return quote(""), nil
			}
			return quote(s.String()), nil
		}),
	)...)
	if err != nil {
		panic(err) // every value of a Config can be encoded
	}
	return string(text)
}

var plain = regexp.MustCompile(`^[\pL\d_./:*@=+ -]+$`)

// quote returns s as YAML on one line. The library leaves some texts unquoted that a list would read differently.
func quote(s string) []byte {
	if text, err := yaml.Marshal(s); err == nil && string(text) == s+"\n" && plain.MatchString(s) {
		return []byte(s)
	}
	return []byte(strconv.Quote(s))
}

// typed returns s, which may be a normalised hostname, as people type it: not in punycode.
func typed(s string) string {
	if shown := hostname.Display(s); shown != s {
		if again, err := hostname.Parse(shown); err == nil && again == s {
			return shown
		}
	}
	return s
}
