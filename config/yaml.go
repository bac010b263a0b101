package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/hint"
)

// document decodes YAML into keys. It is strict: what it does not know is a
// problem, and problems name line and key, never a value, which may be a secret.
type document struct {
	name     string // of the file or the variable
	lines    bool   // sources and problems have a line
	sources  *Sources
	problems Error
}

// parse reads one YAML document; nil when there is nothing in it.
func (d *document) parse(text []byte) ast.Node {
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, message := syntaxError(err)
		d.fail(line, "", "not YAML: %s", message)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.CommentType:
		case body != nil:
			d.fail(lineOf(doc.Body), "", "want one YAML document, not several")
		default:
			body = doc.Body
		}
	}
	return body
}

// syntaxError is the line and the message of an error of the parser, without what
// it quotes from the text, which may be a secret.
func syntaxError(err error) (line int, message string) {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		return 0, "it cannot be read"
	}
	message, _, _ = strings.Cut(at.GetMessage(), `"`)
	return at.GetToken().Position.Line, strings.TrimRight(message, ": ")
}

func (d *document) fail(line int, path, format string, args ...any) {
	where := d.source(line).String()
	if path != "" {
		where += ": " + path
	}
	d.problems = append(d.problems, fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...)))
}

func (d *document) source(line int) Source {
	if !d.lines {
		line = 0
	}
	return Source{d.name, line}
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// decode sets v, the value of the key path, to what n says.
func (d *document) decode(n ast.Node, v reflect.Value, path string) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		d.fail(lineOf(n), path, "anchors, aliases and tags are not supported")
		return
	case *ast.NullNode:
		return // a key with nothing after it is as if it were not there
	}
	switch {
	case isGroup(v.Type()):
		d.decodeKeys(n, v, path)
	case v.Kind() == reflect.Slice:
		d.decodeList(n, v, path)
	default:
		if err := decodeScalar(n, v); err != nil {
			d.fail(lineOf(n), path, "%w", err)
			return
		}
		d.sources.set(path, d.source(lineOf(n)))
	}
}

func (d *document) decodeKeys(n ast.Node, v reflect.Value, path string) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.fail(lineOf(n), path, "want keys with values")
		return
	}
	fields := map[string]reflect.Value{}
	var names []string
	for i := range v.NumField() {
		name := keyName(v.Type().Field(i))
		names = append(names, name)
		fields[name] = v.Field(i)
	}
	seen := map[string]int{}
	for entries := m.MapRange(); entries.Next(); {
		at := entries.Key()
		line, name := lineOf(at), at.GetToken().Value
		field, known := fields[name]
		switch {
		case at.IsMergeKey():
			d.fail(line, path, "anchors, aliases and tags are not supported")
		case !known:
			d.unknown(line, path, name, names)
		case seen[name] != 0:
			d.fail(line, joinKey(path, name), "set for the second time; the first is in line %d", seen[name])
		default:
			seen[name] = line
			d.decode(entries.Value(), field, joinKey(path, name))
		}
	}
}

func (d *document) unknown(line int, path, name string, names []string) {
	near := hint.Nearest(name, names)
	if near == "" {
		near = sameName(name)
	} else {
		near = joinKey(path, near)
	}
	remedy := "config.example.yaml has every key"
	if near != "" {
		remedy = fmt.Sprintf("did you mean %s?", near)
	}
	d.problems = append(d.problems, hint.With(fmt.Errorf("%s: unknown key %.80q", d.source(line), joinKey(path, name)), remedy))
}

// sameName is the first key anywhere that ends in name.
func sameName(name string) string {
	for _, k := range keysOf(&Config{}) {
		if len(k.path) > len(name) && k.path[len(k.path)-len(name)-1:] == "."+name {
			return k.path
		}
	}
	return ""
}

func (d *document) decodeList(n ast.Node, v reflect.Value, path string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(lineOf(n), path, "want a list")
		return
	}
	d.sources.set(path, d.source(lineOf(n)))
	v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
	for i, entry := range list.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		if entry.Type() == ast.NullType {
			d.fail(lineOf(entry), at, "nothing in it")
			continue
		}
		d.sources.set(at, d.source(lineOf(entry)))
		d.decode(entry, v.Index(i), at)
	}
}

func decodeScalar(n ast.Node, v reflect.Value) error {
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.BoolNode:
		if v.Kind() == reflect.Bool {
			v.SetBool(n.Value)
			return nil
		}
		return wanted(v)
	case *ast.IntegerNode:
		if v.Type() != reflect.TypeFor[int]() {
			return wanted(v)
		}
		text = fmt.Sprint(n.Value)
	default:
		return wanted(v)
	}
	if _, ok := n.(*ast.IntegerNode); !ok && (v.Kind() == reflect.Bool || v.Type() == reflect.TypeFor[int]()) {
		return wanted(v) // true and 8 in quotes are text
	}
	return setText(v, text)
}

// setText sets v to the scalar that text is.
func setText(v reflect.Value, text string) error {
	switch v.Interface().(type) {
	case string:
		v.SetString(text)
		return nil
	case egress.Secret:
		v.Set(reflect.ValueOf(egress.NewSecret(text)))
		return nil
	case bool:
		if b, err := strconv.ParseBool(text); err == nil {
			v.SetBool(b)
			return nil
		}
	case int:
		if n, err := strconv.Atoi(text); err == nil {
			v.SetInt(int64(n))
			return nil
		}
	case time.Duration:
		if d, err := ParseDuration(text); err == nil {
			v.SetInt(int64(d))
			return nil
		}
	case ByteSize:
		size, err := ParseByteSize(text)
		v.SetInt(int64(size))
		return err
	}
	return wanted(v)
}

// wanted says what a value of v's type looks like.
func wanted(v reflect.Value) error {
	switch v.Interface().(type) {
	case bool:
		return errors.New("want true or false")
	case int:
		return errors.New("want a whole number")
	case time.Duration:
		return ErrDuration
	case ByteSize:
		return errByteSize
	}
	return errors.New("want text; put it in quotes if it looks like something else")
}
