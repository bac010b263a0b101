package modproxy

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
)

// madeMark is in the build metadata of a version that modproxy has made, or brought for another one.
const madeMark = "modproxy."

// Made returns the version under which something is kept, recorded or served that modproxy has made of v, or brought for it,
// as what says: 1.2.0+modproxy.what. No registry is asked about it, so none can say what it is.
func (v Ref) Made(what string) Ref {
	separator := "+"
	if strings.Contains(v.Version, separator) {
		separator = "."
	}
	v.Version += separator + madeMark + what
	return v
}

// Origin returns the version that v was made of, and as what, see [Ref.Made]. Of any other version it is v itself,
// and what is empty.
func (v Ref) Origin() (of Ref, what string) {
	release, metadata, hasMetadata := strings.Cut(v.Version, "+")
	if !hasMetadata {
		return v, ""
	}
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

// isMade reports whether v looks as if modproxy had made it. What a registry lists so is dropped: it is not its to name.
func (v Version) isMade() bool { return strings.Contains("."+v.metadata, "."+madeMark) }

// nestedMark is what the addresses of nested sources are made as, with a sum that cannot be guessed: whoever has one may read
// what is there.
const nestedMark = "nested."

// IsNestedAddress reports whether v is what the address of a nested source names.
func (v Ref) IsNestedAddress() bool {
	_, _, _, ok := v.ParseNestedAddress()
	return ok
}

// derivedMark and nestedMark begin what the ledger has a record of only: the package is kept by another name.
const derivedMark = "derived."

// Derived returns the version that the ledger has if clients were served v as a package with that sum.
func (v Ref) Derived(sum Sum) Ref { return v.Made(derivedMark + sum.hex()) }

// IsRecordOnly reports whether v is what Derived, NestedAddress or SigningKeys returns.
func (v Ref) IsRecordOnly() bool {
	_, what := v.Origin()
	return v.IsSigningKeys() || strings.HasPrefix(what, derivedMark) || strings.HasPrefix(what, nestedMark)
}

// rewrittenMark begins what is made again whenever it is needed and not kept, of other packages that are.
const rewrittenMark = "rewritten."

// Rewritten returns the version as which a package of v is kept that was changed as hash says.
func (v Ref) Rewritten(hash string) Ref { return v.Made(rewrittenMark + hash) }

// IsRewritten reports whether v is what Rewritten returns.
func (v Ref) IsRewritten() bool {
	_, what := v.Origin()
	return strings.HasPrefix(what, rewrittenMark)
}

// hex returns the hash of s in hexadecimal digits, or of what is no sum, that of nothing.
func (s Sum) hex() string {
	hash, _ := s.Hash()
	return hex.EncodeToString(hash[:])
}

// NestedAddress returns the version that the address of a nested source names which is a package with that sum, in packages of
// v that were made for base.
func (v Ref) NestedAddress(base string, sum Sum) Ref {
	return v.Made(nestedMark + base + "." + sum.hex())
}

// ParseNestedAddress is the inverse of NestedAddress.
func (v Ref) ParseNestedAddress() (of Ref, base string, sum Sum, ok bool) {
	of, what := v.Origin()
	rest, isAddress := strings.CutPrefix(what, nestedMark)
	base, digits, _ := strings.Cut(rest, ".")
	raw, err := hex.DecodeString(digits)
	if !isAddress || err != nil || len(raw) != len(Digest{}) || hex.EncodeToString(raw) != digits {
		return of, "", "", false
	}
	return of, base, NewSum([len(Digest{})]byte(raw)), true
}

// LookupAs returns the record of v in a ledger, or if v was served as a package with that sum, the record of that.
func LookupAs(ctx context.Context, ledger interface {
	Lookup(ctx context.Context, v Ref) (Record, error)
}, v Ref, sum Sum) (Record, error) {
	rec, err := ledger.Lookup(ctx, v)
	if err != nil || rec.Sum == sum {
		return rec, err
	}
	derived, err := ledger.Lookup(ctx, v.Derived(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	return derived, err
}
