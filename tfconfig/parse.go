package tfconfig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Bounds of a tree.
const (
	// maxFile is the size of a file, in bytes. The lexer holds a whole file in memory before it can reject it.
	maxFile = 512 << 10

	maxFiles    = 4000     // configuration files of a tree
	maxTree     = 32 << 20 // their bytes
	maxCalls    = 5000     // and visits of called directories
	maxDepth    = 100      // nested calls of directories
	maxProblems = 100      // reported for a directory
	maxText     = 4 << 10  // bytes of a source, a version or an argument
	maxReason   = 400      // bytes of the reason why a value is unknown
)

// parser reads the directories of one tree.
type parser struct {
	Options
	files   map[string][]byte
	modules map[string]*module // by directory; nil for a directory without a module
	out     Configuration
	of      map[string]bool // the keys become Configuration.Variables
	told    map[string]bool // calls that were added, as JSON without From
	visits  int
}

// parse reads a tree. Files may be truncated after maxFile bytes. It may end the process: only a child calls it.
func parse(files map[string][]byte, o Options) (*Configuration, error) {
	o.Dir = path.Clean(o.Dir)
	if o.Sources {
		return sources(files, o)
	}
	p := &parser{Options: o, files: files, modules: map[string]*module{}, told: map[string]bool{}, of: map[string]bool{}}
	var values map[string]value
	if o.Tests {
		values = p.values()
	}
	given := func(name string) (value, bool) {
		if arg, ok := o.Vars[name]; ok {
			return parseArg(name, arg), true
		}
		if v, ok := values[name]; ok {
			return v, true
		}
		return value{inputs: map[string]bool{name: true}}, false
	}
	if o.Tests {
		p.locks()
	}
	if p.module(o.Dir) != nil {
		if err := p.follow(o.Dir, given, nil, []string{o.Dir}); err != nil {
			return nil, err
		}
	} else if !o.Submodules {
		return nil, invalid("no configuration in %s", o.Dir)
	}
	if o.Submodules {
		if err := p.submodules(); err != nil {
			return nil, err
		}
	}
	p.out.Variables = slices.Sorted(maps.Keys(p.of))
	return &p.out, nil
}

// submodules adds the directories below modules that were not read. They get no values of variables.
func (p *parser) submodules() error {
	dirs := map[string]bool{}
	for name := range p.files {
		if dir := path.Dir(name); path.Dir(dir) == path.Join(p.Dir, "modules") && p.modules[dir] == nil {
			dirs[dir] = true
		}
	}
	given := func(string) (v value, ok bool) { return v, false }
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if p.modules[dir] != nil || p.module(dir) == nil { // another directory calls it, or it is for the other client
			continue
		}
		if err := p.follow(dir, given, nil, []string{dir}); err != nil {
			return err
		}
	}
	return nil
}

// module returns the module in a directory, or nil. The first call for a directory adds its requirements and problems.
func (p *parser) module(dir string) *module {
	m, ok := p.modules[dir]
	if !ok {
		o := p.Options
		o.Tests = o.Tests && dir == o.Dir
		m = load(p.files, dir, o)
		p.modules[dir] = m
		if m != nil {
			p.out.Providers = append(p.out.Providers, m.requirements(o.Client)...)
			p.out.Problems = append(p.out.Problems, m.problems...)
		}
	}
	return m
}

// follow adds the calls of the module in a directory, with the values that given returns for its variables.
func (p *parser) follow(dir string, given func(string) (value, bool), from []Pos, stack []string) error {
	m := p.module(dir)
	s := &scope{module: m, client: p.Client, given: given, values: map[string]value{}, paths: p.paths(dir)}
	for _, c := range m.calls {
		if p.visits++; p.visits > maxCalls {
			return invalid("%s: more than the %d calls that are followed", c.Place(), maxCalls)
		}
		out := Call{Pos: c.Pos, Name: c.name}
		out.Source, out.Version, out.Dynamic, out.Variable = p.address(s, c)
		target, local := ParseLocalSource(dir, out.Source)
		local = local && out.Dynamic == "" && p.module(target) != nil
		switch {
		case local && slices.Contains(stack, target):
			problem := Problem{c.Pos, fmt.Sprintf("module %.80q calls itself", c.name)}
			if !slices.Contains(p.out.Problems, problem) {
				p.out.Problems = append(p.out.Problems, problem)
			}
		case local && len(stack) > maxDepth:
			return invalid("%s: more than %d directories call each other", c.Place(), maxDepth)
		case local:
			given := func(name string) (v value, ok bool) {
				if a := c.args[name]; a != nil {
					return s.eval(a.Expr), true
				}
				return v, false
			}
			err := p.follow(target, given, append(slices.Clip(from), c.Pos), append(slices.Clip(stack), target))
			if err != nil {
				return err
			}
		default:
			out.Args = p.args(s, c)
			text, _ := json.Marshal(out) // always marshals
			if !p.told[string(text)] {
				p.told[string(text)] = true
				out.From = from
				p.out.Calls = append(p.out.Calls, out)
			}
		}
	}
	return nil
}

// paths returns the known members of the object path in the module in dir; nil unless the tree has a root module.
func (p *parser) paths(dir string) map[string]string {
	if !p.Tests {
		return nil
	}
	return map[string]string{"root": p.Dir, "module": dir}
}

// address returns the source and the version of a call, or the reason why they are unknown. variable reports whether the source depends
// on variables.
func (p *parser) address(s *scope, c *call) (source, version, dynamic string, variable bool) {
	if c.source == nil {
		return "", "", "it has no source", false
	}
	if c.test { // both clients accept only literals in test files
		s = &scope{module: s.module, literals: true}
	}
	from := s.eval(c.source)
	maps.Copy(p.of, from.inputs)
	from.unknown = cmp.Or(s.forbidden(c.source, "path"), from.unknown)
	why := ""
	if from.unknown == "" {
		if source, why = text(from.Value); source == "" && why == "" {
			why = "is empty"
		}
	}
	if why = cmp.Or(from.unknown, why); why != "" {
		return "", "", "its source " + why, from.variable
	}
	if c.version == nil {
		return source, "", "", from.variable
	}
	which := s.eval(c.version)
	maps.Copy(p.of, which.inputs)
	which.unknown = cmp.Or(s.forbidden(c.version), which.unknown)
	if which.unknown == "" {
		version, why = text(which.Value)
	}
	_, _, registry := ParseRegistrySource(source, "registry.example.com")
	switch why = cmp.Or(which.unknown, why); {
	case why != "":
		return source, "", "its version " + why, from.variable
	case !registry && (version != "" || s.client == Terraform):
		return source, version, "it has a version, but its source is not a module of a registry", from.variable
	case version == "" && !which.IsNull():
		return source, "", "its version is empty: want a constraint, or no version", from.variable
	}
	return source, strings.TrimSpace(version), "", from.variable
}

// forbidden returns the reason why Terraform does not evaluate a source or version: it refers to something other than variables, locals
// and the objects also.
func (s *scope) forbidden(e hcl.Expression, also ...string) string {
	for _, ref := range e.Variables() {
		if root := ref.RootName(); s.client == Terraform && root != "var" && root != "local" && !slices.Contains(also, root) {
			return "refers to " + refText(ref) + ", but may refer only to constant variables and locals"
		}
	}
	return ""
}

// args returns the arguments of a call.
func (p *parser) args(s *scope, c *call) map[string]Arg {
	if len(c.args) == 0 {
		return nil
	}
	all := map[string]Arg{}
	for name, a := range c.args {
		v := s.eval(a.Expr)
		if p.Client == Terraform { // the value is constant, and may change a source in the called module
			maps.Copy(p.of, v.inputs)
		}
		all[name] = v.arg()
	}
	return all
}
