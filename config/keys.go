package config

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy/egress"
)

// key is a setting: a field of [Config] that is not itself a group of keys. A
// list is one key, whatever is in it.
type key struct {
	path  string // cache.fresh
	value reflect.Value
}

// keysOf are the keys of c in the order of their fields; setting a value changes c.
func keysOf(c *Config) []key {
	var keys []key
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if !isGroup(v.Type()) {
			keys = append(keys, key{path, v})
			return
		}
		for i := range v.NumField() {
			walk(joinKey(path, keyName(v.Type().Field(i))), v.Field(i))
		}
	}
	walk("", reflect.ValueOf(c).Elem())
	return keys
}

// isGroup reports whether a value of type t has keys of its own.
func isGroup(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[egress.Secret]()
}

// keyName is what a field is called in the file.
func keyName(f reflect.StructField) string { return f.Tag.Get("yaml") }

func joinKey(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// variable is the environment variable of a key.
func variable(path string) string {
	return "MODPROXY_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// Source is the place that a value comes from. The zero value is the default.
type Source struct {
	Name string // a file, a variable or a flag with its dashes
	Line int    // in the file, from 1; 0 when Name has no lines
}

func (s Source) String() string {
	switch {
	case s.Name == "":
		return "default"
	case s.Line == 0:
		return s.Name
	}
	return s.Name + ":" + strconv.Itoa(s.Line)
}

// Sources are the places that the values of a [Config] come from.
type Sources struct{ at map[string]Source }

// Of is where the value of a key comes from; path may lead into a list
// (upstreams[0].host). What was not set for itself comes from where the whole
// that it belongs to does.
func (s *Sources) Of(path string) Source {
	for {
		if source, ok := s.at[path]; ok {
			return source
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return Source{}
		}
		path = path[:i]
	}
}

// set notes a key's source and forgets those of the parts it had before.
func (s *Sources) set(path string, source Source) {
	for other := range s.at {
		if strings.HasPrefix(other, path+"[") {
			delete(s.at, other)
		}
	}
	s.at[path] = source
}
