package tfconfig

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/lockfile"
)

// given is the directory of a tree with the files of variable values that were given for the root module. No call leads there.
const given = "/given/"

// isVariables reports whether clients read a file of this name for the variables of the root module (CollectValues in
// internal/command/arguments/vars.go of Terraform, addVarsFromDir in internal/command/meta_vars.go of OpenTofu), or the file was given.
func isVariables(name string) bool {
	return name == "terraform.tfvars" || name == "terraform.tfvars.json" || strings.HasPrefix(name, given) ||
		path.Base(name) == name && (strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json"))
}

// isRoots reports whether a client reads a file of this name for its root module only.
func isRoots(name string) bool { return name == lockfile.Name || isVariables(name) }

// values returns the values of the variables of a root module: from the environment, from files (later ones take precedence), and from
// the command line.
func (p *parser) values() map[string]value {
	var names []string
	for name := range p.files {
		if isVariables(name) {
			names = append(names, name)
		}
	}
	rank := func(name string) int {
		inDir := !strings.HasPrefix(name, given)
		return slices.Index([]bool{name == "terraform.tfvars", name == "terraform.tfvars.json", inDir, true}, true)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	all, in := map[string]value{}, &module{}
	add := func(texts map[string]string) {
		for name, text := range texts {
			all[name] = value{inputs: map[string]bool{name: true}, text: &text}
		}
	}
	add(p.Environment)
	for _, name := range names {
		body, ok := in.parse(name, p.files[name])
		if !ok {
			continue
		}
		attrs, diags := body.JustAttributes()
		in.note(diags)
		for name, a := range attrs {
			v := value{inputs: map[string]bool{name: true}}
			set, diags := a.Expr.Value(nil)
			v.Value, v.unknown, v.wrong = known(set, diags)
			all[name] = v
		}
	}
	add(p.Given)
	p.out.Problems = append(p.out.Problems, in.problems...)
	return all
}
