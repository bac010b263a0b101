package tfconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// value is the result of an expression, or the reason why it is unknown, with the variables of the root directory that it depends on.
type value struct {
	cty.Value // with a reason: unknown, or cty.NilVal
	unknown   string
	inputs    map[string]bool
	variable  bool    // depends on a variable of some directory
	wrong     bool    // the client fails to evaluate the expression, and everything that refers to it
	text      *string // replaces Value until the type of the variable is known
}

// scope evaluates the expressions of a module for one call of it.
type scope struct {
	*module
	client   Client
	literals bool // references are errors
	// given returns the value that the call sets for a variable. If the call does not set it, the variable has its default.
	given func(name string) (v value, ok bool)
	paths map[string]string // known members of the object path

	// values caches evaluated variables and locals, by reference. During its evaluation, an entry has neither a value nor a reason.
	values map[string]value

	callable map[string]function.Function // see functions
	called   string                       // a function that was called and cannot be evaluated
}

// eval returns the value of e.
//
// For OpenTofu a value is known if everything that the expression refers to is known. Terraform evaluates the expression with unknown
// values, and the result may not depend on them (internal/terraform/context_init.go).
func (s *scope) eval(e hcl.Expression) value {
	out := value{inputs: map[string]bool{}}
	refs := e.Variables()
	if s.literals {
		if len(refs) > 0 {
			out.unknown = "refers to " + refText(refs[0]) + ", but must be a literal"
			return out
		}
		v, diags := e.Value(nil)
		out.Value, out.unknown, _ = known(v, diags)
		return out
	}
	roots := map[string]map[string]cty.Value{"var": {}, "local": {}}
	ctx := &hcl.EvalContext{Functions: s.functions(), Variables: map[string]cty.Value{}}
	unknown := ""
	for _, ref := range refs {
		root := ref.RootName()
		name, _ := member(ref)
		v := s.reference(root, name)
		maps.Copy(out.inputs, v.inputs)
		out.variable = out.variable || v.variable
		if out.unknown != "" {
			continue
		}
		if v.unknown != "" {
			why := "refers to " + refText(ref) + ", which " + v.unknown
			if len(why) > maxReason {
				why = "refers to " + refText(ref) + ", which is not known before a plan"
			}
			if s.client == OpenTofu || v.wrong {
				out.unknown, out.wrong = why, v.wrong
				continue // collect the variables of the other references, too
			}
			unknown = cmp.Or(unknown, why)
			if v.Value == cty.NilVal {
				v.Value = cty.DynamicVal
			}
		}
		if name == "" {
			ctx.Variables[root] = v.Value
			continue
		}
		if roots[root] == nil {
			roots[root] = map[string]cty.Value{}
		}
		roots[root][name] = v.Value
	}
	if out.unknown != "" {
		return out
	}
	for root, members := range roots {
		if _, whole := ctx.Variables[root]; !whole {
			ctx.Variables[root] = cty.ObjectVal(members)
		}
	}
	s.called = ""
	v, diags := e.Value(ctx)
	if out.Value, out.unknown, out.wrong = known(v, diags); out.unknown != "" && !out.wrong {
		if s.called != "" {
			out.unknown = notCalled(s.called)
		}
		out.unknown = cmp.Or(unknown, out.unknown)
	}
	return out
}

// member returns the name that follows the root of a reference.
func member(ref hcl.Traversal) (string, bool) {
	if len(ref) < 2 {
		return "", false
	}
	attr, ok := ref[1].(hcl.TraverseAttr)
	return attr.Name, ok
}

func refText(ref hcl.Traversal) string {
	name := ref.RootName()
	if after, ok := member(ref); ok {
		name += "." + after
	}
	return fmt.Sprintf("%.80s", name)
}

func notCalled(name string) string {
	return fmt.Sprintf("calls the function %.80s, which is not evaluated", name)
}

// known returns an evaluated value, or the reason why it is unknown. wrong reports whether the expression cannot be evaluated.
func known(v cty.Value, diags hcl.Diagnostics) (_ cty.Value, why string, wrong bool) {
	for _, d := range diags {
		call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d)
		switch {
		case d.Severity != hcl.DiagError:
		case ok:
			return cty.NilVal, notCalled(call.CalledFunctionName()), false
		default:
			return cty.NilVal, "cannot be evaluated: " + d.Summary, true
		}
	}
	if !v.IsWhollyKnown() {
		return v, "is not known before a plan", false
	}
	return v, "", false
}

// reference returns the value of a variable, a local, or a member of the object path.
func (s *scope) reference(root, name string) value {
	if at, ok := s.paths[name]; ok && root == "path" {
		return value{Value: cty.StringVal(at)}
	}
	if root != "var" && root != "local" || name == "" {
		return value{unknown: "is not known before a plan"}
	}
	ref := root + "." + name
	v, ok := s.values[ref]
	if ok {
		if v.unknown == "" && v.Value == cty.NilVal {
			v.unknown, v.wrong = "refers to itself", true
		}
		return v
	}
	s.values[ref] = value{}
	switch expr := s.locals[name]; {
	case root == "var":
		v = s.variableValue(name)
		v.variable = true
	case expr == nil:
		v.unknown, v.wrong = "is not declared", true
	default:
		v = s.eval(expr)
	}
	s.values[ref] = v
	return v
}

// variableValue returns the value of a variable as the module sees it (OpenTofu: GetInputVariable in static_scope.go; Terraform:
// PrepareFinalInputVariableValue in internal/terraform/eval_variable.go, for constant variables).
func (s *scope) variableValue(name string) (v value) {
	attrs, ok := s.variables[name]
	if !ok {
		return value{unknown: "is not declared", wrong: true}
	}
	flag := func(name string, or bool) bool {
		if attrs[name] == nil {
			return or
		}
		set, diags := attrs[name].Expr.Value(nil)
		set, err := convert.Convert(set, cty.Bool)
		return !diags.HasErrors() && err == nil && set.IsKnown() && !set.IsNull() && set.True()
	}
	typ, defaults := cty.DynamicPseudoType, (*typeexpr.Defaults)(nil)
	if a := attrs["type"]; a != nil {
		var diags hcl.Diagnostics
		if typ, defaults, diags = typeexpr.TypeConstraintWithDefaults(a.Expr); diags.HasErrors() {
			typ, defaults = cty.DynamicPseudoType, nil
		}
	}
	constant := flag("const", s.client == OpenTofu)
	switch secret := flag("sensitive", false); {
	case s.client == Terraform && !constant:
		return value{Value: cty.UnknownVal(typ.WithoutOptionalAttributesDeep()), unknown: "is not constant"}
	case secret:
		return value{unknown: "is sensitive", wrong: true}
	case flag("ephemeral", false):
		return value{unknown: "is ephemeral", wrong: true}
	case !constant:
		return value{unknown: "is not constant"}
	}
	shaped := func(v cty.Value) (cty.Value, error) {
		if defaults != nil && !v.IsNull() {
			v = defaults.Apply(v)
		}
		return convert.Convert(v, typ)
	}
	byDefault, hasDefault := cty.NilVal, false
	if a := attrs["default"]; a != nil {
		set, diags := a.Expr.Value(nil)
		set, err := shaped(set)
		if diags.HasErrors() || err != nil {
			return value{unknown: "has a default that cannot be used", wrong: true}
		}
		byDefault, hasDefault = set, true
	}
	v, given := s.given(name)
	if v.text != nil {
		v.Value, v.unknown = parseText(*v.text, attrs["type"] == nil || typ.IsPrimitiveType())
	}
	if v.unknown == "" && given {
		var err error
		if v.Value, err = shaped(v.Value); err != nil {
			v.unknown = "is given a value of another type"
		}
	}
	switch {
	case v.unknown != "":
	case given && (!v.IsNull() || flag("nullable", true)):
	case hasDefault:
		v.Value = byDefault
	default:
		v.unknown = "has no value"
	}
	v.wrong = v.unknown != ""
	return v
}

// parseText returns the value of a text from the command line or the environment: the text itself, or an expression
// (VariableParsingMode in internal/configs/named_values.go of both clients).
func parseText(text string, literal bool) (v cty.Value, why string) {
	if literal {
		return cty.StringVal(text), ""
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos)
	if !diags.HasErrors() {
		v, diags = expr.Value(nil)
	}
	if diags.HasErrors() {
		return cty.NilVal, "is given a value of another type"
	}
	v, why, _ = known(v, nil)
	return v, why
}

// toString converts a known value to a string.
func toString(v cty.Value) (cty.Value, string) {
	if v == cty.NilVal || !v.IsWhollyKnown() {
		return cty.NilVal, "is not known before a plan"
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return cty.NilVal, "is not a string"
	}
	return s, ""
}

// arg returns a value as an argument.
func (v value) arg() (a Arg) {
	a.Dynamic, a.Inputs = v.unknown, slices.Sorted(maps.Keys(v.inputs))
	if v.unknown != "" {
		return a
	}
	text, err := ctyjson.SimpleJSONValue{Value: v.Value}.MarshalJSON()
	switch {
	case err != nil:
		a.Dynamic = "cannot be written as JSON"
	case len(text) > maxText:
		a.Dynamic = fmt.Sprintf("has more than %d bytes", maxText)
	default:
		a.Value = text
	}
	return a
}

// parseArg returns the value of an argument for the variable name of the root directory.
func parseArg(name string, a Arg) value {
	v := value{unknown: a.Dynamic, inputs: map[string]bool{name: true}}
	var in ctyjson.SimpleJSONValue
	if v.unknown == "" && in.UnmarshalJSON(a.Value) != nil {
		v.unknown = "is given a value that is not JSON"
	}
	v.Value = in.Value
	return v
}
