package tfconfig

import (
	"errors"
	"maps"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// evaluated are the functions of the language that Reader.Read evaluates, also in the namespace core. Their results depend on their
// arguments only and have about the same size (internal/lang/functions.go of both clients).
var evaluated = func() map[string]function.Function {
	all := map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "can": tryfunc.CanFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc,
		"coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc,
		"contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
		"floor": stdlib.FloorFunc, "join": stdlib.JoinFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc,
		"keys": stdlib.KeysFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc, "merge": stdlib.MergeFunc, "min": stdlib.MinFunc,
		"parseint": stdlib.ParseIntFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "reverse": stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc, "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
		"signum": stdlib.SignumFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "split": stdlib.SplitFunc,
		"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"try": tryfunc.TryFunc, "upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

		"format": bounded(stdlib.FormatFunc), "formatlist": bounded(stdlib.FormatListFunc), "replace": replaceFunc,
		"coalesce": coalesceFunc, "length": lengthFunc, "lookup": lookupFunc, "one": oneFunc,
		"startswith": predicate(strings.HasPrefix), "endswith": predicate(strings.HasSuffix), "strcontains": predicate(strings.Contains),
		"tostring": conversion(cty.String), "tonumber": conversion(cty.Number), "tobool": conversion(cty.Bool),
		"tolist": conversion(cty.List(cty.DynamicPseudoType)), "toset": conversion(cty.Set(cty.DynamicPseudoType)),
		"tomap": conversion(cty.Map(cty.DynamicPseudoType)),

		"alltrue": quantifier(false), "anytrue": quantifier(true), "chunklist": stdlib.ChunklistFunc, "csvdecode": stdlib.CSVDecodeFunc,
		"formatdate": stdlib.FormatDateFunc, "indent": indentFunc, "index": indexFunc, "log": stdlib.LogFunc, "matchkeys": matchkeysFunc,
		"pow": stdlib.PowFunc, "range": stdlib.RangeFunc, "setproduct": setProductFunc, "sum": sumFunc, "timeadd": stdlib.TimeAddFunc,
		"transpose": transposeFunc,
	}
	maps.Copy(all, textFunctions)
	maps.Copy(all, cidrFunctions)
	return all
}()

// maxMade bounds the bytes of the result of a text function. A longer result is unknown.
const maxMade = 1 << 20

// anything is a parameter that takes every value.
func anything(name string) function.Parameter {
	return function.Parameter{Name: name, Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowDynamicType: true}
}

// predicate returns a function that compares two strings.
func predicate(holds func(s, part string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "string", Type: cty.String}, {Name: "part", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(holds(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// conversion returns a function that converts a value to a type.
func conversion(to cty.Type) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{anything("value")},
		Type: func(args []cty.Value) (cty.Type, error) {
			v, err := convert.Convert(args[0], to)
			return v.Type(), err
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return convert.Convert(args[0], to) },
	})
}

// padding is a width or a precision of three digits in a format.
var padding = regexp.MustCompile(`%[^a-zA-Z%]*\d{3}`)

// bounded returns f with an unknown result for formats whose result could be large.
func bounded(f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(), Type: f.ReturnTypeForValues,
		Impl: func(args []cty.Value, to cty.Type) (cty.Value, error) {
			text := 1
			for _, arg := range args {
				_ = cty.Walk(arg, func(_ cty.Path, v cty.Value) (bool, error) {
					if text += 30; v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
						text += len(v.AsString())
					}
					return true, nil
				})
			}
			if format := args[0].AsString(); padding.MatchString(format) || strings.Count(format, "%") > maxMade/text {
				return cty.UnknownVal(to), nil
			}
			return f.Call(args)
		},
	})
}

var replaceFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "string", Type: cty.String}, {Name: "old", Type: cty.String}, {Name: "new", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		text, old, with := args[0].AsString(), args[1].AsString(), args[2].AsString()
		if len(text)+1 > maxMade/(len(with)+1) {
			return cty.UnknownVal(cty.String), nil
		}
		if len(old) < 2 || !strings.HasPrefix(old, "/") || !strings.HasSuffix(old, "/") {
			return cty.StringVal(strings.ReplaceAll(text, old, with)), nil
		}
		pattern, err := regexp.Compile(old[1 : len(old)-1])
		if err != nil {
			return cty.NilVal, err
		}
		return cty.StringVal(pattern.ReplaceAllString(text, with)), nil
	},
})

// coalesceFunc skips empty strings. The one of go-cty does not.
var coalesceFunc = function.New(&function.Spec{
	VarParam: func() *function.Parameter { p := anything("values"); return &p }(),
	Type: func(args []cty.Value) (cty.Type, error) {
		types := make([]cty.Type, len(args))
		for i, arg := range args {
			types[i] = arg.Type()
		}
		if t, _ := convert.UnifyUnsafe(types); t != cty.NilType {
			return t, nil
		}
		return cty.NilType, errors.New("its arguments are of different types")
	},
	Impl: func(args []cty.Value, to cty.Type) (cty.Value, error) {
		for _, arg := range args {
			v, err := convert.Convert(arg, to)
			if err != nil || !v.IsKnown() {
				return cty.UnknownVal(to), err
			}
			if !v.IsNull() && (to != cty.String || v.AsString() != "") {
				return v, nil
			}
		}
		return cty.NilVal, errors.New("all its arguments are null or empty")
	},
})

var lengthFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowUnknown: true, AllowDynamicType: true}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		switch v, t := args[0], args[0].Type(); {
		case t == cty.DynamicPseudoType:
			return cty.UnknownVal(cty.Number), nil
		case t == cty.String:
			return stdlib.Strlen(v)
		case t.IsTupleType():
			return cty.NumberIntVal(int64(t.Length())), nil
		case t.IsObjectType():
			return cty.NumberIntVal(int64(len(t.AttributeTypes()))), nil
		case t.IsCollectionType():
			return v.Length(), nil
		}
		return cty.NilVal, errors.New("it has no length")
	},
})

// lookupFunc returns a member of a map or an object, or a default.
var lookupFunc = function.New(&function.Spec{
	Params: []function.Parameter{
		{Name: "map", Type: cty.DynamicPseudoType, AllowUnknown: true}, {Name: "key", Type: cty.String},
	},
	VarParam: func() *function.Parameter { p := anything("default"); return &p }(),
	Type: func(args []cty.Value) (cty.Type, error) {
		switch t := args[0].Type(); {
		case len(args) > 3:
			return cty.NilType, errors.New("it has too many arguments")
		case t.IsMapType():
			return t.ElementType(), nil
		case !t.IsObjectType():
			return cty.NilType, errors.New("it is not a map")
		case !args[1].IsKnown():
			return cty.DynamicPseudoType, nil
		case t.HasAttribute(args[1].AsString()):
			return t.AttributeType(args[1].AsString()), nil
		case len(args) == 3:
			return args[2].Type(), nil
		}
		return cty.NilType, errors.New("it has no such attribute")
	},
	Impl: func(args []cty.Value, to cty.Type) (cty.Value, error) {
		from, key := args[0], args[1].AsString()
		switch {
		case !from.IsKnown():
			return cty.UnknownVal(to), nil
		case from.Type().IsObjectType():
			if from.Type().HasAttribute(key) {
				return from.GetAttr(key), nil
			}
		case from.HasIndex(args[1]).True():
			return from.Index(args[1]), nil
		}
		if len(args) < 3 {
			return cty.NilVal, errors.New("it has no such key")
		}
		return convert.Convert(args[2], to)
	},
})

// oneFunc returns the only element, or null if the list is empty.
var oneFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		switch t := args[0].Type(); {
		case t.IsListType(), t.IsSetType():
			return t.ElementType(), nil
		case t.IsTupleType() && t.Length() == 0:
			return cty.DynamicPseudoType, nil
		case t.IsTupleType() && t.Length() == 1:
			return t.TupleElementType(0), nil
		}
		return cty.NilType, errors.New("it is not a list of at most one element")
	},
	Impl: func(args []cty.Value, to cty.Type) (cty.Value, error) {
		switch args[0].LengthInt() {
		case 0:
			return cty.NullVal(to), nil
		case 1:
			for it := args[0].ElementIterator(); it.Next(); {
				_, v := it.Element()
				return v, nil
			}
		}
		return cty.NilVal, errors.New("it has more than one element")
	},
})
