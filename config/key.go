package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
)

// Key is a field of [Config] that is not itself a group of keys. A list is one key, whatever is in it.
type Key struct {
	Path        string // cache.fresh
	Flag, Usage string // empty unless it has a flag; {dir} in Usage names its value
	Bool        bool
	Default     string

	value reflect.Value
}

// Variable returns the name of the environment variable that sets the key.
func (k Key) Variable() string {
	return "MODPROXY_" + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_"))
}

// Keys returns every key, in the order of the fields of [Config].
func Keys() []Key { return new(Config).keys() }

func (c *Config) keys() (keys []Key) {
	walk("", reflect.ValueOf(c).Elem(), func(path string, f reflect.StructField, v, _ reflect.Value) {
		if !isGroup(f.Type) && !strings.Contains(path, "[") {
			keys = append(keys, Key{path, f.Tag.Get("flag"), f.Tag.Get("usage"), v.Kind() == reflect.Bool, f.Tag.Get("default"), v})
		}
	})
	return keys
}

// walk calls visit for every field of the group at path, and for the fields of the groups in it and in its lists.
func walk(path string, group reflect.Value, visit func(path string, f reflect.StructField, v, group reflect.Value)) {
	for f := range group.Type().Fields() {
		if !f.IsExported() {
			continue
		}
		at, v := joinKey(path, keyName(f)), group.FieldByIndex(f.Index)
		visit(at, f, v, group)
		switch {
		case isGroup(f.Type):
			walk(at, v, visit)
		case isList(f.Type):
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", at, i), v.Index(i), visit)
			}
		}
	}
}

// isGroup reports whether a value of type t has keys of its own.
func isGroup(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() > 0 && t.Field(0).Tag.Get("yaml") != ""
}

// isList reports whether t is a list of groups.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice && isGroup(t.Elem()) }

// keyName returns what a field is called in the file.
func keyName(f reflect.StructField) string { return f.Tag.Get("yaml") }

func joinKey(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// Source returns where the value at path comes from, which may lead into a list (upstreams[0].host): a variable, a
// flag, the file with a line, or "default". A value that was not set for itself has the source of what it is in.
func (c *Config) Source(path string) string {
	for {
		source, ok := c.sources[path]
		i := strings.LastIndexAny(path, ".[")
		if ok || i < 0 {
			return cmp.Or(source, "default")
		}
		path = path[:i]
	}
}
