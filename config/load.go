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

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
)

// maxFile bounds the configuration file and every file with a secret, in bytes.
const maxFile = 256 << 10

// Error is everything that is wrong with a configuration, one error for each mistake.
// To try again changes nothing.
type Error []error

func (e Error) Error() string { return strings.ReplaceAll(errors.Join(e...).Error(), "\n", "; ") }

// Unwrap returns the mistakes.
func (e Error) Unwrap() []error { return e }

// Flag is a flag that was given on the command line, without its dashes.
type Flag struct{ Name, Value string }

// Default returns the configuration in which nothing is set.
func Default() *Config {
	c := &Config{sources: map[string]string{}}
	for _, k := range c.keys() {
		if k.Default == "" {
			continue
		}
		if err := c.set(k, "", k.Default); err != nil {
			panic(err) // a test reads the defaults
		}
	}
	clear(c.sources)
	return c
}

// Load reads the configuration as [Read] does, and checks it: hostnames are normalised
// and secrets read from their files. Its error is an [Error].
func Load(file string, variables []string, flags []Flag) (*Config, error) {
	c, err := Read(file, variables, flags)
	if err != nil {
		return nil, err
	}
	if err := c.checkAll(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) checkAll() error {
	wrong := c.check()
	if len(wrong) == 0 {
		wrong = c.readSecrets()
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// Read reads the configuration: the defaults, then the file, then variables
// ("NAME=value", of which those that begin with MODPROXY_ count), then flags. The later
// wins, key by key. Without a file name the variable MODPROXY_CONFIG names one; without
// that there is none. An empty variable counts as not set.
//
// Each value is well formed; whether they fit together is not checked. Its error is an
// [Error].
func Read(file string, variables []string, flags []Flag) (*Config, error) {
	return read(file, variables, flags, os.Open)
}

func read(file string, variables []string, flags []Flag, open func(string) (*os.File, error)) (*Config, error) {
	c := Default()
	c.open = open
	c.reload = func() (*Config, error) {
		next, err := read(file, variables, flags, openAgain)
		if err != nil {
			return nil, err
		}
		return next, next.checkAll()
	}
	vars := ownVariables(variables)
	var wrong Error
	if name := cmp.Or(file, vars[fileVariable]); name != "" {
		text, err := c.readFile(name)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("configuration: %w", err))
		}
		d := &decoder{config: c, name: name, lines: true}
		d.decode(text, reflect.ValueOf(c).Elem(), "")
		wrong = append(wrong, d.wrong...)
	}
	known := []string{fileVariable, "MODPROXY_TOKEN"} // the latter is for verbs that ask another proxy
	for _, name := range known {
		delete(vars, name)
	}
	keys := c.keys()
	for _, k := range keys {
		name := k.Variable()
		known = append(known, name)
		if text, ok := vars[name]; ok {
			wrong = append(wrong, c.set(k, name, text)...)
			delete(vars, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		wrong = append(wrong, hint.With(fmt.Errorf("unknown variable %.80s", name),
			hint.DidYouMean(name, known, `"modproxy config" prints every key; cache.fresh is MODPROXY_CACHE_FRESH`)))
	}
	for _, f := range flags {
		for _, k := range keys {
			if k.Flag == f.Name {
				wrong = append(wrong, c.set(k, "--"+f.Name, f.Value)...)
			}
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return c, nil
}

// Reload reads the configuration again, from where it came. It returns the keys whose
// values differ, or what is wrong with it now. c stays as it is.
func (c *Config) Reload() (changed []string, err error) {
	if c.reload == nil {
		return nil, nil // it was not read
	}
	next, err := c.reload()
	if err != nil {
		return nil, err
	}
	keys := next.keys()
	for i, k := range c.keys() {
		if !reflect.DeepEqual(k.value.Interface(), keys[i].value.Interface()) {
			changed = append(changed, k.Path)
		}
	}
	return changed, nil
}

const fileVariable = "MODPROXY_CONFIG"

// What Kubernetes sets in every container beside a service of the name modproxy.
var serviceLink = regexp.MustCompile(`^MODPROXY_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?)$`)

// ownVariables returns the variables that are meant for modproxy and not empty.
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

// set sets a key to what the variable or the flag of that name says. A list is values
// with commas between them, or YAML, of which JSON is a part.
func (c *Config) set(k Key, name, text string) Error {
	if k.value.Kind() != reflect.Slice {
		if err := setText(k.value, text); err != nil {
			return Error{fmt.Errorf("%s: %w", name, err)}
		}
		c.sources[k.Path] = name
		return nil
	}
	text = strings.TrimSpace(text)
	if !isList(k.value.Type()) && !strings.HasPrefix(text, "[") {
		entries := strings.Split(text, ",")
		for i, entry := range entries {
			if entries[i] = strings.TrimSpace(entry); k.value.Type().Elem().Kind() != reflect.Int {
				entries[i] = strconv.Quote(entries[i])
			}
		}
		text = "[" + strings.Join(entries, ", ") + "]"
	}
	d := &decoder{config: c, name: name, lines: strings.Contains(text, "\n")}
	d.decode([]byte(text), k.value, k.Path)
	if len(d.wrong) == 0 && !strings.HasPrefix(c.sources[k.Path], name) {
		d.fail(nil, k.Path, wanted(k.value)) // there is nothing but comments
	}
	return d.wrong
}

// readSecrets reads the secrets that are in files of their own.
func (c *Config) readSecrets() (wrong Error) {
	walk("", reflect.ValueOf(c).Elem(), func(path string, f reflect.StructField, v, group reflect.Value) {
		secret, ok := v.Addr().Interface().(*egress.Secret)
		if !ok || fileOf(f, group) == "" {
			return
		}
		text, err := c.readFile(fileOf(f, group))
		if err == nil {
			*secret = egress.NewSecret(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"))
			if secret.IsZero() {
				err = fmt.Errorf("%s: nothing in it", fileOf(f, group))
			}
		}
		if err != nil {
			wrong = append(wrong, c.mistake(path+"_file", err))
		}
	})
	return wrong
}

// fileOf returns the name of the file that the field f of a group is to be read from.
func fileOf(f reflect.StructField, group reflect.Value) string {
	if twin := group.FieldByName(f.Name + "File"); twin.IsValid() {
		return twin.String()
	}
	return ""
}

// openAgain opens a regular file: nobody writes to a pipe for the second time.
func openAgain(name string) (*os.File, error) { return durable.OpenRegular(name, os.O_RDONLY) }

// readFile reads a small file.
func (c *Config) readFile(name string) ([]byte, error) {
	f, err := c.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		return nil, fmt.Errorf("%s: more than %s", name, ByteSize(maxFile))
	}
	return text, err
}
