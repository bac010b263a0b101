package tfconfig

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// module holds the declarations in the files of one directory that affect what is installed.
type module struct {
	calls     []*call
	variables map[string]hcl.Attributes
	locals    map[string]hcl.Expression
	providers map[string]*Requirement // required, by local name
	uses      map[string]*Requirement // used, whether required or not, by local name
	versions  map[string]string       // in provider blocks, by local name and alias
	resources map[string]bool         // by type and name, as type.name
	imports   []imported
	problems  []Problem
}

// call is a block that calls a module.
type call struct {
	Pos
	name            string
	source, version hcl.Expression // nil if the block has none
	args            hcl.Attributes
	test            bool
}

var (
	fileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "terraform"}, {Type: "module", LabelNames: []string{"name"}}, {Type: "variable", LabelNames: []string{"name"}},
		{Type: "locals"}, {Type: "provider", LabelNames: []string{"name"}}, {Type: "resource", LabelNames: []string{"type", "name"}},
		{Type: "data", LabelNames: []string{"type", "name"}}, {Type: "ephemeral", LabelNames: []string{"type", "name"}},
		{Type: "import"}, {Type: "check", LabelNames: []string{"name"}},
	}}
	terraformSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "required_providers"}}}
	callSchema      = attributes("source", "version", "count", "for_each", "depends_on", "providers")
	variableSchema  = attributes("default", "type", "sensitive", "ephemeral", "nullable", "const")
	testSchema      = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "run", LabelNames: []string{"name"}}, {Type: "provider", LabelNames: []string{"name"}},
	}}
	runSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "module"}}}
)

// attributes returns a schema with attributes, and with the blocks that a call may have beside arguments.
func attributes(names ...string) *hcl.BodySchema {
	s := &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "_"}, {Type: "lifecycle"}}}
	for _, name := range names {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: name})
	}
	return s
}

func posOf(r hcl.Range) Pos { return Pos{r.Filename, r.Start.Line} }

func (m *module) problem(at Pos, format string, args ...any) {
	if len(m.problems) < maxProblems {
		m.problems = append(m.problems, Problem{at, fmt.Sprintf(format, args...)})
	}
}

// note adds the first error of diagnostics, without the text of the file that it quotes.
func (m *module) note(diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Subject != nil {
			m.problem(posOf(*d.Subject), "%s", d.Summary)
			return
		}
	}
}

// content returns the part of a body that matches a schema, and the rest.
func (m *module) content(body hcl.Body, schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Body) {
	content, rest, diags := body.PartialContent(schema)
	m.note(diags)
	return content, rest
}

// parse parses a file.
func (m *module) parse(name string, text []byte) (hcl.Body, bool) {
	if len(text) > maxFile {
		m.problem(Pos{File: name}, "is larger than the %d KiB that are read", maxFile>>10)
		return nil, false
	}
	var f *hcl.File
	var diags hcl.Diagnostics
	if strings.HasSuffix(name, ".json") {
		f, diags = json.Parse(text, name)
	} else {
		f, diags = hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	}
	m.note(diags)
	return f.Body, f.Body != nil
}

// file adds the declarations of a file. Those of an override replace earlier ones.
func (m *module) file(name string, text []byte, override bool) {
	body, ok := m.parse(name, text)
	if !ok {
		return
	}
	content, _ := m.content(body, fileSchema)
	for _, b := range content.Blocks {
		switch b.Type {
		case "terraform":
			required, _ := m.content(b.Body, terraformSchema)
			for _, b := range required.Blocks {
				m.require(b)
			}
		case "module":
			m.call(b, override)
		case "variable":
			m.variable(b, override)
		case "locals":
			attrs, diags := b.Body.JustAttributes()
			m.note(diags)
			for name, a := range attrs {
				m.locals[name] = a.Expr
			}
		case "provider":
			m.configure(b)
		case "import":
			m.imported(b)
		case "check":
			inside, _ := m.content(b.Body, checkSchema)
			for _, b := range inside.Blocks {
				m.resource(b)
			}
		default:
			m.resource(b)
		}
	}
}

// literal returns the value of an attribute that is a literal string; otherwise the empty string.
func literal(a *hcl.Attribute) string {
	if a == nil {
		return ""
	}
	v, diags := a.Expr.Value(nil)
	s, why := text(v)
	if diags.HasErrors() || why != "" {
		return ""
	}
	return s
}

// call adds a call, or changes the call that an override refers to.
func (m *module) call(b *hcl.Block, override bool) {
	content, rest := m.content(b.Body, callSchema)
	c := &call{Pos: posOf(b.DefRange), name: b.Labels[0], args: hcl.Attributes{}}
	bodies := []hcl.Body{rest}
	for _, b := range content.Blocks {
		if b.Type == "_" {
			bodies = append(bodies, b.Body)
		}
	}
	for _, body := range bodies {
		attrs, _ := body.JustAttributes() // clients report anything else in the body
		maps.Copy(c.args, attrs)
	}
	at := slices.IndexFunc(m.calls, func(other *call) bool { return other.name == c.name })
	switch {
	case at < 0 && override:
		m.problem(c.Pos, "overrides module %.80q, which does not exist", c.name)
	case at < 0:
		m.calls = append(m.calls, c)
	case override:
		maps.Copy(m.calls[at].args, c.args)
		c = m.calls[at]
	default:
		m.problem(c.Pos, "module %.80q is declared twice", c.name)
		m.calls = append(m.calls, c)
	}
	c.address(content)
}

// address sets the source and the version of a call from its block.
func (c *call) address(block *hcl.BodyContent) {
	if a := block.Attributes["source"]; a != nil {
		c.source = a.Expr
	}
	if a := block.Attributes["version"]; a != nil {
		c.version = a.Expr
	}
}

func (m *module) variable(b *hcl.Block, override bool) {
	content, _ := m.content(b.Body, variableSchema)
	name := b.Labels[0]
	switch have := m.variables[name]; {
	case have != nil && override:
		maps.Copy(have, content.Attributes)
	case have != nil:
		m.problem(posOf(b.DefRange), "variable %.80q is declared twice", name)
	default:
		m.variables[name] = content.Attributes
	}
}

// testFile adds the calls of a test file, and for OpenTofu its providers.
func (m *module) testFile(name string, text []byte, client Client) {
	body, ok := m.parse(name, text)
	if !ok {
		return
	}
	runs, _ := m.content(body, testSchema)
	for _, run := range runs.Blocks {
		if run.Type == "provider" {
			if client == OpenTofu {
				m.configure(run)
			}
			continue
		}
		modules, _ := m.content(run.Body, runSchema)
		for _, b := range modules.Blocks {
			content, _ := m.content(b.Body, callSchema)
			c := &call{Pos: posOf(b.DefRange), name: run.Labels[0], test: true}
			c.address(content)
			m.calls = append(m.calls, c)
		}
	}
}

// load reads the module in a directory of files. It returns nil if the directory does not exist.
func load(files map[string][]byte, dir string, o Options) *module {
	var here, below []string
	exists := false
	for name := range files {
		exists = exists || dir == "." || strings.HasPrefix(name, dir+"/")
		switch path.Dir(name) {
		case dir:
			here = append(here, name)
		case path.Join(dir, "tests"):
			below = append(below, name)
		}
	}
	names := o.Client.read(here, modulesEnd)
	m := &module{
		variables: map[string]hcl.Attributes{}, locals: map[string]hcl.Expression{},
		providers: map[string]*Requirement{}, uses: map[string]*Requirement{}, versions: map[string]string{}, resources: map[string]bool{},
	}
	for _, override := range []bool{false, true} {
		for _, name := range names {
			if isOverride(name) == override {
				m.file(name, files[name], override)
			}
		}
	}
	if o.Tests {
		for _, name := range slices.Concat(o.Client.read(here, testsEnd), o.Client.tests(below)) {
			m.testFile(name, files[name], o.Client)
		}
	}
	slices.SortStableFunc(m.calls, func(a, b *call) int { return a.Pos.Compare(b.Pos) })
	if !exists {
		return nil
	}
	return m
}

// text returns the string of a source or a version, or the reason why v is not a string. Null is the empty string.
func text(v cty.Value) (s, why string) {
	v, why = toString(v)
	if why != "" || v.IsNull() {
		return "", why
	}
	if s = v.AsString(); len(s) > maxText {
		return "", fmt.Sprintf("it has more than %d bytes", maxText)
	}
	return s, ""
}
