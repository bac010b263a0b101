package tfconfig

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/modproxy/modproxy/lockfile"
)

// builtin is the beginning of the sources of providers that are part of the clients.
const builtin = "terraform.io/builtin/"

var (
	providerSchema = attributes("version", "alias")
	resourceSchema = attributes("provider")
	importSchema   = attributes("to", "provider")
	checkSchema    = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "data", LabelNames: []string{"type", "name"}}}}
)

// locks adds the entries of the root module's lock file, if it exists.
func (p *parser) locks() {
	name := path.Join(p.Dir, lockfile.Name)
	all, err := lockfile.Parse(p.files[name])
	if len(p.files[name]) > maxFile { // the end may be missing
		err = invalid("it is larger than the %d KiB that are read", maxFile>>10)
	}
	if err != nil {
		p.out.Problems = append(p.out.Problems, Problem{Pos{File: name}, err.Error()})
		return
	}
	for _, l := range all {
		p.out.Locks = append(p.out.Locks, Lock{Pos{name, l.Line}, l.Address.String(), l.Version})
	}
}

// imported is the subject of an import block.
type imported struct {
	Pos
	provider string // its local name
	target   string // the resource as type.name; empty for a resource of another module
}

// require adds a required_providers block. An entry of an override replaces the earlier one.
func (m *module) require(b *hcl.Block) {
	attrs, diags := b.Body.JustAttributes()
	m.note(diags)
	for name, a := range attrs {
		r := &Requirement{Pos: posOf(a.NameRange), Name: name, Version: literal(a)} // a string is a version constraint
		pairs, diags := hcl.ExprMap(a.Expr)
		if diags.HasErrors() && r.Version == "" {
			m.problem(r.Pos, "provider %.80q has a requirement that cannot be parsed", name)
		}
		for _, pair := range pairs {
			key, _ := pair.Key.Value(nil)
			value, diags := pair.Value.Value(nil)
			s, why := text(value)
			switch key, _ := text(key); {
			case key != "source" && key != "version":
			case diags.HasErrors() || why != "":
				m.problem(r.Pos, "the %s of provider %.80q is not a literal string", key, name)
			case key == "source":
				r.Source = s
			default:
				r.Version = s
			}
		}
		r.Source = cmp.Or(r.Source, implied(name))
		m.providers[name] = r
	}
}

// implied returns the source of a provider that only has a local name.
func implied(name string) string {
	if name == "terraform" {
		return builtin + name
	}
	return "hashicorp/" + name
}

// configure adds the provider of a provider block, with the version in it, if any. The block of an override replaces the earlier one.
func (m *module) configure(b *hcl.Block) {
	attrs, _ := m.content(b.Body, providerSchema)
	name := b.Labels[0]
	m.use(name, posOf(b.DefRange))
	if version := literal(attrs.Attributes["version"]); version != "" {
		m.versions[name+"."+literal(attrs.Attributes["alias"])] = version
	}
}

// resource adds the provider of a resource, a data source or an ephemeral resource.
func (m *module) resource(b *hcl.Block) {
	if b.Type == "resource" {
		m.resources[b.Labels[0]+"."+b.Labels[1]] = true
	}
	content, _ := m.content(b.Body, resourceSchema)
	m.use(cmp.Or(reference(content.Attributes["provider"]), providerOf(b.Labels[0])), posOf(b.DefRange))
}

// providerOf returns the local name of the provider of a resource type.
func providerOf(typ string) string {
	name, _, _ := strings.Cut(typ, "_")
	return name
}

// reference returns the local name of the provider that an attribute refers to, or the empty string.
func reference(a *hcl.Attribute) string {
	if a == nil {
		return ""
	}
	if t, diags := hcl.AbsTraversalForExpr(a.Expr); !diags.HasErrors() {
		return t.RootName()
	}
	name, _, _ := strings.Cut(literal(a), ".") // as in Terraform 0.11
	return name
}

// imported adds an import block.
func (m *module) imported(b *hcl.Block) {
	content, _ := m.content(b.Body, importSchema)
	i := imported{Pos: posOf(b.DefRange), provider: reference(content.Attributes["provider"])}
	var to hcl.Traversal
	if a := content.Attributes["to"]; a != nil {
		var diags hcl.Diagnostics
		if to, diags = hcl.AbsTraversalForExpr(a.Expr); diags.HasErrors() {
			for _, to = range a.Expr.Variables() { // for x.y[each.key]
				break
			}
		}
	}
	var names []string
	for _, step := range to {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, step.Name)
		case hcl.TraverseAttr:
			names = append(names, step.Name)
		}
	}
	inside := len(names) > 0 && names[0] == "module"
	for len(names) > 2 && names[0] == "module" {
		names = names[2:]
	}
	if len(names) < 2 {
		return
	}
	i.provider = cmp.Or(i.provider, providerOf(names[0]))
	if !inside {
		i.target = names[0] + "." + names[1]
	}
	m.imports = append(m.imports, i)
}

// use adds a provider by its local name.
func (m *module) use(name string, at Pos) {
	if m.uses[name] == nil {
		m.uses[name] = &Requirement{Pos: at, Name: name, Source: implied(name)}
	}
}

// requirements returns the required providers, and those that are used without a requirement (addProviderRequirements in
// internal/configs/config.go of both clients).
func (m *module) requirements(client Client) (list []Requirement) {
	for _, i := range m.imports {
		if client == OpenTofu || i.target != "" && !m.resources[i.target] {
			m.use(i.provider, i.Pos)
		}
	}
	for name, r := range m.uses {
		if m.providers[name] == nil {
			m.providers[name] = r
		}
	}
	for _, block := range slices.Sorted(maps.Keys(m.versions)) {
		name, _, _ := strings.Cut(block, ".")
		r := m.providers[name]
		r.Version = strings.TrimPrefix(r.Version+", "+m.versions[block], ", ")
	}
	for _, r := range m.providers {
		if !strings.HasPrefix(r.Source, builtin) {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b Requirement) int { return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Name, b.Name)) })
	return list
}
