package clean

import "reflect"

// Deep returns a copy of v in which [Text] is applied to every string: in exported fields, lists, maps, and behind
// pointers. It does not change v. The result may share memory with v. Slices of bytes, such as a [encoding/json.RawMessage], and
// unexported fields are copied unchanged: apply JSON to the encoded value.
func Deep[T any](v T) T {
	if in := reflect.ValueOf(&v).Elem(); !isClean(in) {
		in.Set(cleaned(in))
	}
	return v
}

// isClean reports whether Deep changes nothing in v.
func isClean(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return isText(v.String())
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || isClean(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return true
		}
		for i := range v.Len() {
			if !isClean(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for at := v.MapRange(); at.Next(); {
			if !isClean(at.Key()) || !isClean(at.Value()) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !isClean(v.Field(i)) {
				return false
			}
		}
	}
	return true
}

// cleaned returns a clean copy of v.
func cleaned(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(Text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(cleaned(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(cleaned(v.Elem()))
		}
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			out.Index(i).Set(cleaned(v.Index(i)))
		}
	case reflect.Map:
		if v.IsNil() {
			break
		}
		out.Set(reflect.MakeMap(v.Type()))
		for at := v.MapRange(); at.Next(); {
			out.SetMapIndex(cleaned(at.Key()), cleaned(at.Value()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(cleaned(v.Field(i)))
			}
		}
	}
	return out
}
