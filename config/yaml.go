package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/modproxy/modproxy/internal/hint"
)

// decoder sets the values of a configuration from YAML. The library's own decoder does not do: it takes 8.5 for
// 8 and 010 for the text 8, expands aliases, stops at the first error, and shows values, which may be secrets.
type decoder struct {
	config *Config
	name   string // of the file or the variable
	lines  bool   // sources have a line
	wrong  Error
}

// decode sets v, the value at path, to what text says. Empty text changes nothing.
func (d *decoder) decode(text []byte, v reflect.Value, path string) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		var at yaml.Error
		if !errors.As(err, &at) {
			d.fail(nil, "", errors.New("not YAML"))
			return
		}
		message := at.GetMessage()
		if !strings.HasPrefix(message, "mapping key ") {
			message, _, _ = strings.Cut(message, `"`) // what is quoted may be a secret
		}
		d.fail(at.GetToken(), "not YAML", errors.New(strings.TrimRight(message, ": ")))
		return
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			d.fail(doc.Body.GetToken(), "", errors.New("want one YAML document, not several"))
		}
		body = doc.Body
	}
	if body != nil && len(d.wrong) == 0 {
		d.set(body, v, path)
	}
}

// source returns where t is.
func (d *decoder) source(t *token.Token) string {
	if t == nil || !d.lines {
		return d.name
	}
	return d.name + ":" + strconv.Itoa(t.Position.Line)
}

func (d *decoder) fail(t *token.Token, path string, err error) {
	if path != "" {
		err = fmt.Errorf("%s: %w", path, err)
	}
	d.wrong = append(d.wrong, fmt.Errorf("%s: %w", d.source(t), err))
}

// set sets v, the value at path, to what n says. A key with nothing after it keeps its value.
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
		if v.Kind() == reflect.Slice {
			d.setList(n, v, path)
			return
		}
	case *ast.BoolNode:
		if v.Kind() == reflect.Bool {
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
		if v.Kind() != reflect.Bool && v.Kind() != reflect.Int { // true and 8 in quotes are text
			err = setText(v, n.Value)
		}
	}
	if err != nil {
		d.fail(n.GetToken(), path, err)
		return
	}
	d.config.sources[path] = d.source(n.GetToken())
}

func (d *decoder) setGroup(n ast.MapNode, v reflect.Value, path string) {
	fields := map[string]reflect.Value{}
	for f := range v.Type().Fields() {
		fields[keyName(f)] = v.FieldByIndex(f.Index)
	}
	delete(fields, "") // what is no key
	for entries := n.MapRange(); entries.Next(); {
		key, name := entries.Key(), entries.Key().GetToken().Value
		field, known := fields[name]
		switch {
		case key.IsMergeKey():
			d.set(&ast.MergeKeyNode{BaseNode: &ast.BaseNode{}, Token: key.GetToken()}, v, path)
		case known:
			d.set(entries.Value(), field, joinKey(path, name))
		default: // say which was meant: one nearby, or one of that name elsewhere
			remedy, elsewhere := "config.example.yaml has every key", func(k Key) bool { return strings.HasSuffix(k.Path, "."+name) }
			if near := hint.Nearest(name, slices.Sorted(maps.Keys(fields))); near != "" {
				remedy = fmt.Sprintf("did you mean %s?", joinKey(path, near))
			} else if i := slices.IndexFunc(Keys(), elsewhere); i >= 0 {
				remedy = fmt.Sprintf("did you mean %s?", Keys()[i].Path)
			}
			err := fmt.Errorf("%s: unknown key %.80q", d.source(key.GetToken()), joinKey(path, name))
			d.wrong = append(d.wrong, hint.With(err, remedy))
		}
	}
}

// setList replaces a list and forgets where what was in it came from.
func (d *decoder) setList(n *ast.SequenceNode, v reflect.Value, path string) {
	maps.DeleteFunc(d.config.sources, func(other, _ string) bool { return strings.HasPrefix(other, path+"[") })
	d.config.sources[path] = d.source(n.GetToken())
	v.Set(reflect.MakeSlice(v.Type(), len(n.Values), len(n.Values)))
	for i, entry := range n.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		if entry.Type() == ast.NullType {
			d.fail(entry.GetToken(), at, errors.New("nothing in it"))
		}
		d.config.sources[at] = d.source(entry.GetToken())
		d.set(entry, v.Index(i), at)
	}
}
