package config

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/hint"
)

// setText sets v, which is not a group or a list, to the value of text.
func setText(v reflect.Value, text string) (err error) {
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = text
	case *egress.Secret:
		*p = egress.NewSecret(text)
	case *time.Duration:
		*p, err = ParseDuration(text)
	case *ByteSize:
		*p, err = ParseByteSize(text)
	case *auth.Scope:
		*p, err = ParseScope(text)
	case *netip.Prefix:
		*p, err = parseNetwork(text)
	case *Anonymous:
		*p = Anonymous{}
		if p.All, err = strconv.ParseBool(text); err != nil {
			err = wanted(v)
		}
	case *bool:
		if *p, err = strconv.ParseBool(text); err != nil {
			err = wanted(v)
		}
	case *int:
		if *p, err = strconv.Atoi(text); err != nil {
			err = wanted(v)
		}
	case encoding.TextUnmarshaler:
		err = p.UnmarshalText([]byte(text))
	default:
		err = wanted(v)
	}
	return err
}

// wanted returns an error that describes the values of v's type.
func wanted(v reflect.Value) error {
	switch v.Interface().(type) {
	case Anonymous:
		return errors.New("want true, false, or a list of scopes, such as [registry.terraform.io/*]")
	case bool:
		return errors.New("want true or false")
	case int:
		return errors.New("want a whole number")
	case time.Duration:
		return errDuration
	case ByteSize:
		return errByteSize
	}
	switch {
	case isGroup(v.Type()):
		return errors.New("want keys with values")
	case isList(v.Type()):
		return errors.New("want a list in YAML or JSON, such as [{key: value}]")
	case v.Kind() == reflect.Slice:
		return errors.New("want a list")
	}
	return errors.New("want text; put it in quotes if it looks like something else")
}

// ByteSize is a number of bytes. Its text is a whole number and a unit: B, KiB, MiB, GiB or TiB.
type ByteSize int64

// MiB is 1048576 bytes.
const MiB ByteSize = 1 << 20

var (
	byteUnits   = []string{"B", "KiB", "MiB", "GiB", "TiB"}
	errByteSize = errors.New("want a size with its unit, such as 64MiB or 50GiB")
	errDuration = errors.New("want a duration with its unit, such as 30s, 5m, 12h or 30d")
	zeroUnits   = regexp.MustCompile(`(h)0m0s$|(m)0s$`)
)

// ParseByteSize parses the text of [ByteSize.String].
func ParseByteSize(s string) (ByteSize, error) {
	digits := strings.TrimRight(s, "BKMGTi")
	n, err := strconv.ParseUint(digits, 10, 63)
	i := slices.Index(byteUnits, s[len(digits):])
	if err != nil || i < 0 {
		return 0, errByteSize
	}
	size := ByteSize(n) << (10 * i)
	if size>>(10*i) != ByteSize(n) || size < 0 {
		return 0, fmt.Errorf("%s is too large", s)
	}
	return size, nil
}

// MarshalText returns the text of String.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String returns the size in the largest unit that needs no fraction.
func (b ByteSize) String() string {
	i := 0
	for ; i < len(byteUnits)-1 && b != 0 && b%1024 == 0; i++ {
		b /= 1024
	}
	return strconv.FormatInt(int64(b), 10) + byteUnits[i]
}

// ParseDuration is [time.ParseDuration] with days of 24 hours at the beginning: 30d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	if days, rest, ok := strings.Cut(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 32); err == nil {
			s = fmt.Sprintf("%dh%s", 24*n, rest)
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errDuration
	}
	return d, nil
}

// FormatDuration returns d without the trailing zero units of [time.Duration.String].
func FormatDuration(d time.Duration) string { return zeroUnits.ReplaceAllString(d.String(), "$1$2") }

// ParseScope is [auth.ParseScope] for a host as people write it.
func ParseScope(s string) (auth.Scope, error) {
	if host, namespace, ok := strings.Cut(s, "/"); ok && host != "*" {
		normalised, err := hostname.Parse(host)
		if err != nil {
			return auth.Scope{}, err
		}
		s = normalised + "/" + namespace
	}
	return auth.ParseScope(s)
}

// parseNetwork parses a network or a single address.
func parseNetwork(s string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix.Masked(), nil
	}
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("want an address or a network, such as 10.0.0.0/8, not %.80q", s)
	}
	return netip.PrefixFrom(ip, ip.BitLen()), nil
}

// decoder sets the values of a configuration from YAML. The library's own decoder is unsuitable: it converts 8.5 to 8 and 010
// to the text 8, expands aliases, stops at the first error, and shows values, which may be secret.
type decoder struct {
	config *Config
	name   string // of the file or the variable
	lines  bool   // sources have a line number
	wrong  Error
}

// decode sets v, the value at path, to the value of text. Empty text changes nothing.
func (d *decoder) decode(text []byte, v reflect.Value, path string) {
	tokens := lexer.Tokenize(string(text))
	if at, err := tooMuch(tokens); err != nil {
		d.fail(at, "", err)
		return
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		var at yaml.Error
		if !errors.As(err, &at) {
			d.fail(nil, "", errors.New("not YAML"))
			return
		}
		message := at.GetMessage()
		if !strings.HasPrefix(message, "mapping key ") {
			message, _, _ = strings.Cut(message, `"`) // the quoted text may be secret
		}
		d.fail(at.GetToken(), "", errors.New("not YAML: "+strings.TrimRight(message, ": ")))
		return
	}
	empty := func(doc *ast.DocumentNode) bool { return doc.Body == nil || doc.Body.Type() == ast.CommentType }
	switch docs := slices.DeleteFunc(file.Docs, empty); {
	case len(docs) > 1:
		d.fail(docs[1].Body.GetToken(), "", errors.New("want one YAML document, not several"))
	case len(docs) == 1:
		d.set(docs[0].Body, v, path)
	}
}

// source returns the place of t.
func (d *decoder) source(t *token.Token) string {
	if t == nil || !d.lines {
		return d.name
	}
	return d.name + ":" + strconv.Itoa(t.Position.Line)
}

// fail records that the value at path is malformed. An empty path means the whole text.
func (d *decoder) fail(t *token.Token, path string, err error) {
	d.config.markUnsound(path)
	if path != "" {
		err = fmt.Errorf("%s: %w", path, err)
	}
	d.wrong = append(d.wrong, fmt.Errorf("%s: %w", d.source(t), err))
}

// set sets v, the value at path, to the value of n. A key without a value keeps its earlier value.
func (d *decoder) set(n ast.Node, v reflect.Value, path string) {
	err := wanted(v)
	switch n := n.(type) {
	case *ast.NullNode:
		return
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		err = errors.New("anchors, aliases and tags are not supported")
	case ast.MapNode:
		if isGroup(v.Type()) {
			d.setGroup(n, v, path)
			return
		}
	case *ast.SequenceNode:
		if a, ok := v.Addr().Interface().(*Anonymous); ok && len(n.Values) > 0 { // an empty list is ambiguous
			*a = Anonymous{}
			d.setList(n, reflect.ValueOf(&a.Scopes).Elem(), path)
			return
		}
		if v.Kind() == reflect.Slice {
			d.setList(n, v, path)
			return
		}
	case *ast.BoolNode:
		if v.Kind() == reflect.Bool || v.Type() == reflect.TypeFor[Anonymous]() {
			err = setText(v, n.GetToken().Value)
		}
	case *ast.IntegerNode:
		if v.Kind() == reflect.Int {
			err = setText(v, fmt.Sprint(n.Value))
		}
	case *ast.LiteralNode:
		d.set(n.Value, v, path)
		return
	case *ast.StringNode:
		if v.Kind() != reflect.Bool && v.Kind() != reflect.Int && v.Type() != reflect.TypeFor[Anonymous]() { // true and 8 in quotes are text
			err = setText(v, n.Value)
		}
	}
	if err != nil {
		d.fail(n.GetToken(), path, err)
		return
	}
	d.config.sources[path] = d.source(n.GetToken())
}

var allKeys = sync.OnceValue(Keys)

func (d *decoder) setGroup(n ast.MapNode, v reflect.Value, path string) {
	fields := map[string]reflect.Value{}
	for f := range v.Type().Fields() {
		fields[keyName(f)] = v.FieldByIndex(f.Index)
	}
	delete(fields, "") // fields without a key
	for entries := n.MapRange(); entries.Next(); {
		key, name := entries.Key(), entries.Key().GetToken().Value
		field, known := fields[name]
		switch {
		case key.IsMergeKey():
			d.set(&ast.MergeKeyNode{BaseNode: &ast.BaseNode{}, Token: key.GetToken()}, v, path)
		case known:
			d.set(entries.Value(), field, joinKey(path, name))
		default: // suggest a similar key here, or the same key in another group
			remedy, elsewhere := "config.example.yaml has every key", func(k Key) bool { return strings.HasSuffix(k.Path, "."+name) }
			if near := hint.Nearest(name, slices.Sorted(maps.Keys(fields))); near != "" {
				remedy = fmt.Sprintf("did you mean %s?", joinKey(path, near))
			} else if i := slices.IndexFunc(allKeys(), elsewhere); i >= 0 {
				remedy = fmt.Sprintf("did you mean %s?", allKeys()[i].Path)
			}
			err := fmt.Errorf("%s: unknown key %.80q", d.source(key.GetToken()), joinKey(path, name))
			d.wrong = append(d.wrong, hint.With(err, remedy))
			d.config.markUnsound(joinKey(path, name))
		}
	}
}

// setList replaces a list, and removes the sources of its earlier entries.
func (d *decoder) setList(n *ast.SequenceNode, v reflect.Value, path string) {
	if _, again := d.config.sources[path]; again {
		maps.DeleteFunc(d.config.sources, func(other, _ string) bool { return strings.HasPrefix(other, path+"[") })
	}
	d.config.sources[path] = d.source(n.GetToken())
	v.Set(reflect.MakeSlice(v.Type(), len(n.Values), len(n.Values)))
	for i, entry := range n.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		if entry.Type() == ast.NullType {
			d.fail(entry.GetToken(), at, errors.New("the entry is empty"))
		}
		d.config.sources[at] = d.source(entry.GetToken())
		d.set(entry, v.Index(i), at)
	}
}

// Platform is a platform in the notation of lock files: linux_amd64.
type Platform struct{ modproxy.Platform }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Platform) UnmarshalText(text []byte) (err error) {
	p.Platform, err = modproxy.ParsePlatform(string(text))
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (p Platform) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
