package tfconfig

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Source is the source of a call as written in a file: a literal, or an expression of literals and locals, which is the same for every
// caller.
type Source struct {
	Pos
	Start  int    `json:"start"` // first byte of the expression in the file
	End    int    `json:"end"`   // first byte after the expression
	Source string `json:"source,omitempty"`
	// Dynamic is the reason why Source is unknown. It is empty if Source is known.
	Dynamic string `json:"dynamic,omitempty"`
}

// IsExampleOrTest reports whether a directory of a package has examples or tests, or is hidden. Such directories are rarely installed,
// and many do not work.
func IsExampleOrTest(dir string) bool {
	return slices.ContainsFunc(strings.Split(path.Clean(dir), "/"), func(part string) bool {
		return strings.HasPrefix(part, ".") && part != "." || slices.Contains([]string{"example", "examples", "test", "tests"}, part)
	})
}

// sources finds the sources of all calls that a client may read: in the directories of a tree except those [IsExampleOrTest], in o.Also,
// and in the directories that these call. A file with an error, which no client loads, has a problem and no sources.
func sources(files map[string][]byte, o Options) (*Configuration, error) {
	byDir := map[string][]string{}
	for name := range files {
		if ending(name, modulesEnd) >= 0 {
			byDir[path.Dir(name)] = append(byDir[path.Dir(name)], name)
		}
	}
	var todo []string
	for dir := range byDir {
		if !IsExampleOrTest(dir) || slices.Contains(o.Also, dir) {
			todo = append(todo, dir)
		}
	}
	m, out, done := &module{}, &Configuration{}, map[string]bool{}
	for ; len(todo) > 0; todo = todo[1:] {
		if done[todo[0]] {
			continue
		}
		done[todo[0]] = true
		own := &constants{files: files, dir: todo[0]}
		for _, name := range byDir[todo[0]] {
			if len(files[name]) > maxFile {
				return nil, invalid("%s: is larger than the %d KiB that are read", name, maxFile>>10)
			}
			for _, s := range m.sources(name, files[name], own) {
				if out.Sources = append(out.Sources, s); len(out.Sources) > maxCalls {
					return nil, invalid("%s: more than the %d calls that are read", s.Place(), maxCalls)
				}
				if dir, local := ParseLocalSource(todo[0], s.Source); local {
					todo = append(todo, dir)
				}
			}
		}
	}
	slices.SortFunc(out.Sources, func(a, b Source) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Start, b.Start)) })
	out.Problems = m.problems
	slices.SortFunc(out.Problems, func(a, b Problem) int { return a.Pos.Compare(b.Pos) })
	return out, nil
}

// constants evaluates the sources in a directory that are not literals.
type constants struct {
	files  map[string][]byte
	dir    string
	scopes map[Client]*scope
}

// eval returns the value of a source if all clients that read the file agree on it for all values of the module's variables; otherwise
// the reason.
func (c *constants) eval(name string, e hcl.Expression) (source, why string) {
	if c.scopes == nil {
		c.scopes = map[Client]*scope{}
		for client := range DefaultHosts {
			none := func(string) (v value, given bool) { return v, false }
			c.scopes[client] = &scope{module: load(c.files, c.dir, Options{Client: client}), client: client, given: none, values: map[string]value{}}
		}
	}
	readers := 0
	for _, client := range slices.Sorted(maps.Keys(c.scopes)) {
		if len(client.read([]string{name}, modulesEnd)) == 0 {
			continue
		}
		s := c.scopes[client]
		v := s.eval(e)
		why := cmp.Or(s.forbidden(e, "path"), v.unknown)
		if v.variable && !v.wrong {
			why = "depends on a variable"
		}
		one := ""
		if why == "" {
			one, why = text(v.Value)
		}
		if readers++; why == "" && readers > 1 && one != source {
			why = "differs between Terraform and OpenTofu"
		}
		if why != "" {
			return "", why
		}
		source = one
	}
	return source, ""
}

// sources returns the sources in a file.
func (m *module) sources(name string, content []byte, own *constants) (list []Source) {
	before := len(m.problems)
	body, ok := m.parse(name, content)
	if !ok || len(m.problems) > before {
		return nil
	}
	literals := &scope{module: m, literals: true}
	blocks, _ := m.content(body, fileSchema)
	for _, b := range blocks.Blocks {
		if b.Type != "module" {
			continue
		}
		call, _ := m.content(b.Body, callSchema)
		a := call.Attributes["source"]
		if a == nil {
			continue
		}
		r := a.Expr.Range()
		s := Source{Pos: posOf(r), Start: r.Start.Byte, End: r.End.Byte}
		if v := literals.eval(a.Expr); v.unknown != "" {
			s.Source, s.Dynamic = own.eval(name, a.Expr)
		} else {
			s.Source, s.Dynamic = text(v.Value)
		}
		list = append(list, s)
	}
	return list
}
