package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/hint"
)

// maxFile bounds the configuration file and every file with a secret, in bytes.
const maxFile = 256 << 10

// Load reads the configuration: the defaults, then the file, then variables
// ("NAME=value", of which those that begin with MODPROXY_ count), then flags. The
// later wins, key by key; a list is one key. Without a file name the variable
// MODPROXY_CONFIG names one; without that there is none. An empty variable is as
// if it were not set.
//
// What it gives has been checked: hostnames are normalised, secrets that are in
// files have been read. Its error is an [Error] and has everything that is
// wrong.
func Load(file string, variables []string, flags []Flag) (*Config, *Sources, error) {
	c, sources, err := Read(file, variables, flags)
	if err != nil {
		return nil, nil, err
	}
	all := check(c, sources)
	if len(all) == 0 {
		all = readSecrets(c, sources)
	}
	if len(all) > 0 {
		return nil, nil, all
	}
	return c, sources, nil
}

// Read is [Load] without the checks that look further than one value.
func Read(file string, variables []string, flags []Flag) (*Config, *Sources, error) {
	c, sources := Default(), &Sources{map[string]Source{}}
	vars := ownVariables(variables)
	if file == "" {
		file = vars["MODPROXY_CONFIG"]
	}
	delete(vars, "MODPROXY_CONFIG")
	delete(vars, "MODPROXY_TOKEN") // which verbs show to another proxy
	var all Error
	if file != "" {
		all = append(all, loadFile(c, sources, file)...)
	}
	all = append(all, loadVariables(c, sources, vars)...)
	all = append(all, loadFlags(c, sources, flags)...)
	if len(all) > 0 {
		return nil, nil, all
	}
	return c, sources, nil
}

func loadFile(c *Config, sources *Sources, name string) Error {
	text, err := readFile(name)
	if err != nil {
		return Error{fmt.Errorf("configuration: %w", err)}
	}
	d := &document{name: name, lines: true, sources: sources}
	if n := d.parse(text); n != nil {
		d.decode(n, reflect.ValueOf(c).Elem(), "")
	}
	return d.problems
}

// readFile reads a small file.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
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

// What Kubernetes sets in every container beside a service of the name modproxy.
var serviceLink = regexp.MustCompile(`^MODPROXY_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?)$`)

// ownVariables are the variables that are meant for modproxy and not empty.
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

func loadVariables(c *Config, sources *Sources, vars map[string]string) Error {
	var all Error
	known := []string{"MODPROXY_CONFIG", "MODPROXY_TOKEN"}
	for _, k := range keysOf(c) {
		name := variable(k.path)
		known = append(known, name)
		text, ok := vars[name]
		if !ok {
			continue
		}
		delete(vars, name)
		all = append(all, loadText(sources, k, name, text)...)
	}
	var unknown []string
	for name := range vars {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		all = append(all, hint.With(fmt.Errorf("unknown variable %.80s", name),
			hint.DidYouMean(name, known, `"modproxy config" prints every key; cache.fresh is MODPROXY_CACHE_FRESH`)))
	}
	return all
}

func loadFlags(c *Config, sources *Sources, flags []Flag) Error {
	var all Error
	keys := keysOf(c)
	for _, f := range flags {
		i := slices.IndexFunc(keys, func(k key) bool { return k.path == f.Key })
		all = append(all, loadText(sources, keys[i], "--"+f.Name, f.Value)...)
	}
	return all
}

// loadText sets a key to what the variable or the flag name says.
func loadText(sources *Sources, k key, name, text string) Error {
	if k.value.Kind() == reflect.Slice {
		return loadList(sources, k, name, text)
	}
	if err := setText(k.value, text); err != nil {
		return Error{fmt.Errorf("%s: %w", name, err)}
	}
	sources.set(k.path, Source{Name: name})
	return nil
}

// loadList reads a list: values with commas between them, or YAML, of which JSON
// is a part.
func loadList(sources *Sources, k key, name, text string) Error {
	element := k.value.Type().Elem()
	trimmed := strings.TrimSpace(text)
	if element.Kind() != reflect.Struct && !strings.HasPrefix(trimmed, "[") {
		list := reflect.MakeSlice(k.value.Type(), 0, 1)
		for entry := range strings.SplitSeq(text, ",") {
			v := reflect.New(element).Elem()
			if err := setText(v, strings.TrimSpace(entry)); err != nil {
				return Error{fmt.Errorf("%s: %w", name, err)}
			}
			list = reflect.Append(list, v)
		}
		k.value.Set(list)
		sources.set(k.path, Source{Name: name})
		return nil
	}
	d := &document{name: name, lines: strings.Contains(trimmed, "\n"), sources: sources}
	switch n := d.parse([]byte(text)).(type) {
	case nil:
		if len(d.problems) == 0 {
			d.fail(0, "", "want a list")
		}
	case *ast.SequenceNode:
		d.decode(n, k.value, k.path)
	default:
		d.fail(lineOf(n), "", `want a list in YAML or JSON, such as [{host: registry.example.com}]`)
	}
	return d.problems
}

// readSecrets reads the secrets that are in files of their own.
func readSecrets(c *Config, sources *Sources) Error {
	var all Error
	read := func(path string, secret *egress.Secret, file string) {
		if file == "" {
			return
		}
		text, err := readFile(file)
		if err == nil {
			*secret = egress.NewSecret(cutNewline(string(text)))
			if secret.IsZero() {
				err = errors.New(file + ": nothing in it")
			}
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s: %s: %w", sources.Of(path), path, err))
		}
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		read(fmt.Sprintf("upstreams[%d].token_file", i), &u.Token, u.TokenFile)
	}
	for i := range c.Credentials {
		cr := &c.Credentials[i]
		read(fmt.Sprintf("credentials[%d].password_file", i), &cr.Password, cr.PasswordFile)
	}
	return all
}

// cutNewline cuts the one newline that editors end a file with.
func cutNewline(s string) string {
	return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r")
}

// Flag is a flag that was given on the command line.
type Flag struct{ Name, Key, Value string }
