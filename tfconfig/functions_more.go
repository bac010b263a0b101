package tfconfig

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// notEvaluated are functions of the clients that Reader.Read does not evaluate: they read files, depend on the machine or the time, hide
// values, or need a library that this program does not have. Their results are unknown.
var notEvaluated = []string{
	"abspath", "base64gunzip", "base64gzip", "bcrypt", "convert", "ephemeralasnull", "file", "filebase64", "filebase64sha256",
	"filebase64sha512", "fileexists", "filemd5", "fileset", "filesha1", "filesha256", "filesha512", "issensitive", "list", "map",
	"nonsensitive", "pathexpand", "plantimestamp", "rsadecrypt", "sensitive", "templatefile", "templatestring", "textdecodebase64",
	"textencodebase64", "timestamp", "uuid", "uuidv5", "yamldecode", "yamlencode",
}

// functions returns the functions that the expressions of s may call. Those of notEvaluated set s.called.
//
// It is not enough to leave these out: "try" and "can" treat a call of a missing function as an error of the expression.
func (s *scope) functions() map[string]function.Function {
	if s.callable != nil {
		return s.callable
	}
	s.callable = map[string]function.Function{}
	for name, f := range evaluated {
		if s.client == OpenTofu || !onlyOpenTofu[name] {
			s.callable[name], s.callable["core::"+name] = f, f
		}
	}
	for _, name := range notEvaluated {
		called := function.New(&function.Spec{
			VarParam: func() *function.Parameter { p := anything("values"); return &p }(),
			Type: func([]cty.Value) (cty.Type, error) {
				s.called = name
				return cty.DynamicPseudoType, nil
			},
			Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.DynamicVal, nil },
		})
		s.callable[name], s.callable["core::"+name] = called, called
	}
	return s.callable
}

// onlyOpenTofu are functions that Terraform does not have.
var onlyOpenTofu = map[string]bool{"cidrcontains": true, "urldecode": true}

// ofStrings returns a function of n strings.
func ofStrings(n int, to cty.Type, f func(args []string) (cty.Value, error)) function.Function {
	spec := &function.Spec{Type: function.StaticReturnType(to)}
	for range n {
		spec.Params = append(spec.Params, function.Parameter{Name: "string", Type: cty.String})
	}
	spec.Impl = func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		texts := make([]string, len(args))
		for i, arg := range args {
			texts[i] = arg.AsString()
		}
		return f(texts)
	}
	return function.New(spec)
}

// text1 returns a function from a string to a string.
func text1(f func(string) string) function.Function {
	return ofStrings(1, cty.String, func(args []string) (cty.Value, error) { return cty.StringVal(f(args[0])), nil })
}

func hexOf(sum []byte) string { return hex.EncodeToString(sum) }

func base64Of(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// textFunctions return strings made of strings, or compare strings.
var textFunctions = map[string]function.Function{
	"md5":          text1(func(s string) string { sum := md5.Sum([]byte(s)); return hexOf(sum[:]) }),
	"sha1":         text1(func(s string) string { sum := sha1.Sum([]byte(s)); return hexOf(sum[:]) }),
	"sha256":       text1(func(s string) string { sum := sha256.Sum256([]byte(s)); return hexOf(sum[:]) }),
	"sha512":       text1(func(s string) string { sum := sha512.Sum512([]byte(s)); return hexOf(sum[:]) }),
	"base64sha256": text1(func(s string) string { sum := sha256.Sum256([]byte(s)); return base64Of(sum[:]) }),
	"base64sha512": text1(func(s string) string { sum := sha512.Sum512([]byte(s)); return base64Of(sum[:]) }),
	"base64encode": text1(func(s string) string { return base64Of([]byte(s)) }),
	"base64decode": ofStrings(1, cty.String, func(args []string) (cty.Value, error) {
		text, err := base64.StdEncoding.DecodeString(args[0])
		if err == nil && !utf8.Valid(text) {
			err = errors.New("not UTF-8")
		}
		return cty.StringVal(string(text)), err
	}),
	"basename":  text1(path.Base),
	"dirname":   text1(path.Dir),
	"urlencode": text1(url.QueryEscape),
	"urldecode": ofStrings(1, cty.String, func(args []string) (cty.Value, error) {
		text, err := url.QueryUnescape(args[0])
		return cty.StringVal(text), err
	}),
	"timecmp": ofStrings(2, cty.Number, func(args []string) (cty.Value, error) {
		a, err := time.Parse(time.RFC3339, args[0])
		b, err2 := time.Parse(time.RFC3339, args[1])
		return cty.NumberIntVal(int64(a.Compare(b))), errors.Join(err, err2)
	}),
}

// quantifier returns a function that returns end if a list of booleans contains end. Null counts as false.
func quantifier(end bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			unknown := false
			for _, v := range args[0].AsValueSlice() {
				switch {
				case !v.IsKnown():
					unknown = true
				case (!v.IsNull() && v.True()) == end:
					return cty.BoolVal(end), nil
				}
			}
			if unknown {
				return cty.UnknownVal(cty.Bool), nil
			}
			return cty.BoolVal(!end), nil
		},
	})
}

// indexFunc returns the index of the first element of a list that equals a value.
var indexFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}, {Name: "value", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if t := args[0].Type(); !t.IsListType() && !t.IsTupleType() {
			return cty.NilVal, errors.New("not a list")
		}
		for it := args[0].ElementIterator(); it.Next(); {
			i, v := it.Element()
			switch equal, err := stdlib.Equal(v, args[1]); {
			case err != nil:
				return cty.NilVal, err
			case !equal.IsKnown():
				return cty.UnknownVal(cty.Number), nil
			case equal.True():
				return i, nil
			}
		}
		return cty.NilVal, errors.New("not in the list")
	},
})

// matchkeysFunc returns the values of a list whose key is in a set of searched keys.
var matchkeysFunc = function.New(&function.Spec{
	Params: []function.Parameter{
		{Name: "values", Type: cty.List(cty.DynamicPseudoType)}, {Name: "keys", Type: cty.List(cty.DynamicPseudoType)},
		{Name: "searchset", Type: cty.List(cty.DynamicPseudoType)},
	},
	Type: func(args []cty.Value) (cty.Type, error) {
		if t, _ := convert.UnifyUnsafe([]cty.Type{args[1].Type(), args[2].Type()}); t == cty.NilType {
			return cty.NilType, errors.New("keys of different types")
		}
		return args[0].Type(), nil
	},
	Impl: func(args []cty.Value, to cty.Type) (cty.Value, error) {
		if args[0].LengthInt() != args[1].LengthInt() {
			return cty.NilVal, errors.New("the lists have different lengths")
		}
		unified, _ := convert.UnifyUnsafe([]cty.Type{args[1].Type(), args[2].Type()})
		keys, err := convert.Convert(args[1], unified)
		wanted, err2 := convert.Convert(args[2], unified)
		if err := errors.Join(err, err2); err != nil {
			return cty.NilVal, err
		}
		if !args[0].IsWhollyKnown() || !keys.IsWhollyKnown() || !wanted.IsWhollyKnown() || keys.LengthInt()*wanted.LengthInt() > maxMade {
			return cty.UnknownVal(to), nil
		}
		var out []cty.Value
		for i, key := range keys.AsValueSlice() {
			for _, one := range wanted.AsValueSlice() {
				equal, err := stdlib.Equal(key, one)
				if err != nil {
					return cty.NilVal, err
				}
				if equal.True() {
					out = append(out, args[0].Index(cty.NumberIntVal(int64(i))))
					break
				}
			}
		}
		if len(out) == 0 {
			return cty.ListValEmpty(to.ElementType()), nil
		}
		return cty.ListVal(out), nil
	},
})

var sumFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (sum cty.Value, err error) {
		if t := args[0].Type(); !t.IsListType() && !t.IsSetType() && !t.IsTupleType() || args[0].LengthInt() == 0 {
			return cty.NilVal, errors.New("not a list of numbers")
		}
		defer func() { // opposing infinities
			if v := recover(); v != nil {
				nan, ok := v.(big.ErrNaN)
				if !ok {
					panic(v)
				}
				err = nan
			}
		}()
		sum = cty.Zero
		for _, v := range args[0].AsValueSlice() {
			if v, err = convert.Convert(v, cty.Number); err != nil {
				return cty.NilVal, err
			}
			if v.IsNull() {
				return cty.NilVal, errors.New("null in a list")
			}
			sum = sum.Add(v)
		}
		return sum, nil
	},
})

// transposeFunc exchanges the keys and the elements of a map of lists of strings.
var transposeFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "map", Type: cty.Map(cty.List(cty.String))}},
	Type:   function.StaticReturnType(cty.Map(cty.List(cty.String))),
	Impl: func(args []cty.Value, to cty.Type) (cty.Value, error) {
		if !args[0].IsWhollyKnown() {
			return cty.UnknownVal(to), nil
		}
		lists, out := map[string][]cty.Value{}, map[string]cty.Value{}
		for it := args[0].ElementIterator(); it.Next(); { // in the order of keys
			key, list := it.Element()
			if list.IsNull() {
				return cty.NilVal, errors.New("a list is null")
			}
			for _, v := range list.AsValueSlice() {
				if v.IsNull() {
					return cty.NilVal, errors.New("null in a list")
				}
				lists[v.AsString()] = append(lists[v.AsString()], key)
			}
		}
		for name, list := range lists {
			out[name] = cty.ListVal(list)
		}
		if len(out) == 0 {
			return cty.MapValEmpty(cty.List(cty.String)), nil
		}
		return cty.MapVal(out), nil
	},
})

// indentFunc is the one of go-cty, unless its result could be large.
var indentFunc = function.New(&function.Spec{
	Params: stdlib.IndentFunc.Params(), Type: function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		lines := cty.NumberIntVal(int64(strings.Count(args[1].AsString(), "\n") + 1))
		if args[0].Multiply(lines).GreaterThan(cty.NumberIntVal(maxMade)).True() {
			return cty.UnknownVal(cty.String), nil
		}
		return stdlib.IndentFunc.Call(args)
	},
})

// setProductFunc is the one of go-cty, unless its result could be large.
var setProductFunc = function.New(&function.Spec{
	VarParam: stdlib.SetProductFunc.VarParam(), Type: stdlib.SetProductFunc.ReturnTypeForValues,
	Impl: func(args []cty.Value, to cty.Type) (cty.Value, error) {
		n := 1
		for _, arg := range args {
			if !arg.IsWhollyKnown() {
				return cty.UnknownVal(to), nil
			}
			if n *= max(arg.LengthInt(), 1); n > maxProduct {
				return cty.UnknownVal(to), nil
			}
		}
		return stdlib.SetProductFunc.Call(args)
	},
})

// maxProduct bounds the elements of a product of sets. A larger product is unknown.
const maxProduct = 4096
