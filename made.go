package modproxy

import "strings"

// madeMark is in the build metadata of a version that modproxy has made, or brought for another one.
const madeMark = "modproxy."

// Made returns the version under which something is kept, recorded or served that modproxy has made of v, or brought for it,
// as what says: 1.2.0+modproxy.what. No registry is asked about it, so none can say what it is.
func (v ModuleVersion) Made(what string) ModuleVersion {
	separator := "+"
	if strings.Contains(v.Version, separator) {
		separator = "."
	}
	v.Version += separator + madeMark + what
	return v
}

// Origin returns the version that v was made of, and as what, see [ModuleVersion.Made]. Of any other version it is v itself,
// and what is empty.
func (v ModuleVersion) Origin() (of ModuleVersion, what string) {
	release, metadata, _ := strings.Cut(v.Version, "+")
	before, what, made := strings.Cut("."+metadata, "."+madeMark)
	if !made {
		return v, ""
	}
	of = v.At(release)
	if before != "" {
		of.Version += "+" + before[1:]
	}
	return of, what
}

// NestedAddress is what the addresses of nested sources are made as, followed by words that cannot be guessed: whoever has one
// may read what is there.
const NestedAddress = "nested."

// IsNestedAddress reports whether v is what the address of a nested source names.
func (v ModuleVersion) IsNestedAddress() bool {
	_, what := v.Origin()
	return strings.HasPrefix(what, NestedAddress)
}
