package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
)

// maxFile is the maximum size of the configuration file and of every file with a secret, in bytes.
const maxFile = 256 << 10

// Error is the list of all mistakes in a configuration. A retry does not help.
type Error []error

// Error returns the first mistakes, in one line.
func (e Error) Error() string {
	const some = 10
	text := strings.ReplaceAll(errors.Join(e[:min(some, len(e))]...).Error(), "\n", "; ")
	if more := len(e) - some; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unwrap returns the mistakes.
func (e Error) Unwrap() []error { return e }

// Flag is a flag that was given on the command line, without its dashes.
type Flag struct{ Name, Value string }

// Default returns the configuration with all defaults.
func Default() *Config {
	c := &Config{sources: map[string]string{}}
	for _, k := range c.keys() {
		if k.Default != "" && c.set(k, "", k.Default) != nil {
			panic(k.Path) // a test parses all defaults
		}
	}
	clear(c.sources)
	return c
}

// Load is [Read] with checks of the whole configuration. It normalises hostnames and reads secrets from their files. The error is an
// [Error]: all mistakes that Read finds, or else all that the checks find.
func Load(file string, variables []string, flags []Flag) (*Config, error) {
	c, err := Read(file, variables, flags)
	if err == nil {
		err = c.complete()
	}
	return c, err
}

// Check is like [Load], but checks the whole configuration even if Read finds mistakes, and returns the mistakes of both. If the file
// cannot be read as a whole, it returns only this mistake. In the returned configuration, a key with a malformed value has its default:
// see [Config.IsSound].
func Check(file string, variables []string, flags []Flag) (*Config, Error) {
	c, wrong := read(file, variables, flags, os.Open)
	if !c.IsSound("") {
		return c, wrong
	}
	var more Error
	if errors.As(c.complete(), &more) {
		wrong = append(wrong, more...)
	}
	return c, wrong
}

// IsSound reports whether the file could be read as a whole, and each of the given top-level keys has no mistake. Without keys it
// reports only whether the file could be read.
func (c *Config) IsSound(keys ...string) bool {
	return !c.unsound[""] && !slices.ContainsFunc(keys, func(key string) bool { return c.unsound[key] })
}

// markUnsound records a mistake in the value at path.
func (c *Config) markUnsound(path string) {
	if c.unsound == nil {
		c.unsound = map[string]bool{}
	}
	if i := strings.IndexAny(path, ".["); i >= 0 {
		path = path[:i]
	}
	c.unsound[path] = true
}

// Read reads the configuration: the defaults, then the file, then variables ("NAME=value", only those that begin with
// MODPROXY_), then flags. Later values override earlier ones, key by key. Without a file name, the variable MODPROXY_CONFIG
// names the file; without the variable, no file is read. An empty variable counts as not set.
//
// Read checks that each value is well formed, but not whether the values fit together. The error is an [Error].
func Read(file string, variables []string, flags []Flag) (*Config, error) {
	return sound(read(file, variables, flags, os.Open))
}

// sound returns c, or the mistakes in it.
func sound(c *Config, wrong Error) (*Config, error) {
	if len(wrong) > 0 {
		return nil, wrong
	}
	return c, nil
}

// read is like Read, but returns the configuration together with its mistakes.
func read(file string, variables []string, flags []Flag, open func(string) (*os.File, error)) (*Config, Error) {
	c := Default()
	c.open = open
	c.again = func() (*Config, error) {
		return sound(read(file, variables, flags, func(name string) (*os.File, error) {
			return durable.OpenRegular(name, os.O_RDONLY) // a pipe would not deliver the file again
		}))
	}
	vars := ownVariables(variables)
	var wrong Error
	if name := cmp.Or(file, vars[fileVariable]); name != "" {
		c.file = name
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			c.again = nil
		}
		text, err := c.readFile(name)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("configuration: %w", err))
			c.markUnsound("")
		}
		d := &decoder{config: c, name: name, lines: true}
		d.decode(text, reflect.ValueOf(c).Elem(), "")
		wrong = append(wrong, d.wrong...)
	}
	known := []string{fileVariable, "MODPROXY_TOKEN"} // MODPROXY_TOKEN is for commands that talk to another proxy
	keys := c.keys()
	for _, k := range keys {
		known = append(known, k.Variable())
		if text, ok := vars[k.Variable()]; ok {
			wrong = append(wrong, c.set(k, k.Variable(), text)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !slices.Contains(known, name) {
			wrong = append(wrong, hint.With(fmt.Errorf("unknown variable %.80s", name),
				hint.DidYouMean(name, known, `"modproxy config" prints every key; cache.fresh is MODPROXY_CACHE_FRESH`)))
		}
	}
	for _, f := range flags {
		if i := slices.IndexFunc(keys, func(k Key) bool { return k.Flag == f.Name }); i >= 0 {
			wrong = append(wrong, c.set(keys[i], "--"+f.Name, f.Value)...)
		}
	}
	return c, wrong
}

// Reload reads the configuration again, as [Load] does, and returns it with the paths of the keys whose values differ from those of c. It
// does not change c. If the configuration has mistakes now, next is nil and err is the [Error] with them. A configuration from a pipe
// cannot be read again: Reload then returns c.
func (c *Config) Reload() (next *Config, changed []string, err error) {
	if c.again == nil {
		return c, nil, nil
	}
	next, err = c.again()
	if err == nil {
		err = next.complete()
	}
	if err != nil {
		return nil, nil, err
	}
	keys := next.keys()
	for i, k := range c.keys() {
		if !reflect.DeepEqual(k.value.Interface(), keys[i].value.Interface()) {
			changed = append(changed, k.Path)
		}
	}
	return next, changed, nil
}

const fileVariable = "MODPROXY_CONFIG"

// serviceLink matches variables that Kubernetes sets in every container next to a service with the name modproxy.
var serviceLink = regexp.MustCompile(`^MODPROXY_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?)$`)

// ownVariables returns the non-empty variables that are meant for modproxy.
func ownVariables(variables []string) map[string]string {
	own := map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "MODPROXY_") && value != "" && !serviceLink.MatchString(name) {
			own[name] = value
		}
	}
	return own
}

// set sets a key to the value of a variable or flag. A list is comma-separated values, or YAML, or JSON.
func (c *Config) set(k Key, name, text string) Error {
	one := k.value.Kind() != reflect.Slice
	if k.value.Type() == reflect.TypeFor[Anonymous]() {
		one = !strings.ContainsAny(text, "/*[") // only scopes contain these characters
	}
	if one {
		if err := setText(k.value, text); err != nil {
			c.markUnsound(k.Path)
			return Error{fmt.Errorf("%s: %w", name, err)}
		}
		c.sources[k.Path] = name
		return nil
	}
	text = strings.TrimSpace(text)
	if !isList(k.value.Type()) && !strings.HasPrefix(text, "[") {
		entries := strings.Split(text, ",")
		for i, entry := range entries {
			if entries[i] = strings.TrimSpace(entry); k.value.Type() != reflect.TypeFor[[]int]() {
				entries[i] = strconv.Quote(entries[i])
			}
		}
		text = "[" + strings.Join(entries, ", ") + "]"
	}
	d := &decoder{config: c, name: name, lines: strings.Contains(text, "\n")}
	d.decode([]byte(text), k.value, k.Path)
	if len(d.wrong) == 0 && !strings.HasPrefix(c.sources[k.Path], name) {
		d.fail(nil, k.Path, wanted(k.value)) // the text has only comments
	}
	return d.wrong
}

// fileOf returns the name of the file that contains the field f of a group, or an empty string.
func fileOf(f reflect.StructField, group reflect.Value) string {
	if twin := group.FieldByName(f.Name + "File"); twin.IsValid() {
		return twin.String()
	}
	return ""
}

// readFile reads a file of at most maxFile bytes.
func (c *Config) readFile(name string) ([]byte, error) {
	f, err := c.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %s", name, ByteSize(maxFile))
	}
	return text, err
}

// Key is a field of [Config] that is not a group of keys. A list is one key.
type Key struct {
	Path        string // for example cache.fresh
	Flag, Usage string // empty without a flag; {dir} in Usage names its value
	Bool        bool   // the flag without a value means true
	Default     string

	value reflect.Value
}

// Variable returns the name of the environment variable of the key.
func (k Key) Variable() string {
	return "MODPROXY_" + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_"))
}

// Keys returns all keys, in the order of the fields of [Config].
func Keys() []Key { return new(Config).keys() }

func (c *Config) keys() (keys []Key) {
	walk("", reflect.ValueOf(c).Elem(), func(path string, f reflect.StructField, v, _ reflect.Value) {
		if !isGroup(f.Type) && !strings.Contains(path, "[") {
			keys = append(keys, Key{path, f.Tag.Get("flag"), f.Tag.Get("usage"), v.Kind() == reflect.Bool || v.Type() == reflect.TypeFor[Anonymous](), f.Tag.Get("default"), v})
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

// keyName returns the name of a field in the file.
func keyName(f reflect.StructField) string { return f.Tag.Get("yaml") }

func joinKey(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// Source returns the source of the value at path: a variable, a flag, the file with a line, or "default". The path may lead
// into a list (upstreams[0].host). A value that was not set individually has the source of the list or group that contains it.
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
