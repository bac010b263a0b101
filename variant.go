package modproxy

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
)

// VariantKind is the kind of a [Variant]. Its value is the first word of the variant's text.
type VariantKind string

const (
	NoVariant        VariantKind = ""          // the version as its registry lists it
	PlatformVariant  VariantKind = "platform"  // a provider's zip archive for one platform; Value is OS-ARCH
	SourceVariant    VariantKind = "source"    // the package of a nested source that the version calls; Value is a hash of its location
	RewrittenVariant VariantKind = "rewritten" // the package with rewritten sources; Value is a hash of the rewritten text
	ServedVariant    VariantKind = "derived"   // ledger records only: the version was served as the package with this sum
	NestedVariant    VariantKind = "nested"    // ledger records and URLs: a nested source; Value is BASE.SUM
	BaseVariant      VariantKind = "at"        // URLs only: the package rewritten for one public URL; Value is a hash of the URL
	KeysVariant      VariantKind = "keys"      // ledger records only: the keys that may sign a provider; no Value
	UnknownVariant   VariantKind = "unknown"   // any other text; packages, records and URLs never have it
)

// Variant identifies content that modproxy stores, records or serves beside a version that a registry lists. The zero value
// is the version itself. Variants are comparable.
type Variant struct {
	Kind  VariantKind
	Value string // its form depends on the kind
}

// variantMark begins the text of a variant in the build metadata of a version. Registries cannot list such versions.
const variantMark = "modproxy."

// text returns the text after variantMark.
func (v Variant) text() string {
	switch v.Kind {
	case NoVariant, UnknownVariant:
		return v.Value
	case KeysVariant:
		return string(v.Kind)
	case PlatformVariant, SourceVariant, RewrittenVariant, ServedVariant, NestedVariant, BaseVariant:
	}
	return string(v.Kind) + "." + v.Value
}

// parseVariant is the inverse of text, for a version of m.
func parseVariant(m Address, version, text string) Variant {
	kind, value, _ := strings.Cut(text, ".")
	v := Variant{VariantKind(kind), value}
	known := value != ""
	switch v.Kind {
	case PlatformVariant:
		_, ok := parsePlatformVariant(value)
		known = ok && m.IsProvider()
	case NestedVariant:
		_, _, known = parseNestedVariant(value)
	case KeysVariant:
		known = text == kind && m.IsProvider() && version == keysVersion
	case SourceVariant, RewrittenVariant, ServedVariant, BaseVariant:
	case NoVariant, UnknownVariant:
		known = false
	default:
		known = false
	}
	if !known {
		return Variant{UnknownVariant, text}
	}
	return v
}

// At returns a version of m. version is canonical, or the result of [Ref.FullVersion]. Only At parses variants.
func (m Address) At(version string) Ref {
	release, metadata, hasMetadata := strings.Cut(version, "+")
	if !hasMetadata {
		return Ref{Address: m, Version: version}
	}
	before, text, isVariant := strings.Cut("."+metadata, "."+variantMark)
	if !isVariant {
		return Ref{Address: m, Version: version}
	}
	if before != "" {
		release += "+" + before[1:]
	}
	return Ref{m, release, parseVariant(m, release, text)}
}

// FullVersion returns the version with its variant as build metadata, such as 1.2.0+modproxy.platform.linux-amd64. The
// ledger, the store and URLs use this form. It is canonical if Version is canonical.
func (v Ref) FullVersion() string {
	if v.Variant == (Variant{}) {
		return v.Version
	}
	separator := "+"
	if strings.Contains(v.Version, separator) {
		separator = "."
	}
	return v.Version + separator + variantMark + v.Variant.text()
}

// Base returns the version that v is a variant of. A version without a variant is its own base.
func (v Ref) Base() Ref { return Ref{Address: v.Address, Version: v.Version} }

// With returns a variant of the version. It replaces the variant that v has.
func (v Ref) With(kind VariantKind, value string) Ref {
	v.Variant = Variant{kind, value}
	return v
}

// IsListed reports whether v has no variant, so that a registry may list it.
func (v Ref) IsListed() bool { return v.Variant.Kind == NoVariant }

// IsModuleVariant reports whether v is a variant of a module's version.
func (v Ref) IsModuleVariant() bool { return v.Variant.Kind != NoVariant && v.IsModule() }

// hasVariant reports whether a version has the text of a variant. Registries must not list such versions.
func (v Version) hasVariant() bool { return strings.Contains("."+v.metadata, "."+variantMark) }

// ServedAs returns the key of the ledger record of v as served to clients in the form of the package with that sum.
func (v Ref) ServedAs(sum Sum) Ref { return v.With(ServedVariant, sum.hex()) }

// IsRecordOnly reports whether v exists only in the ledger. If v has a package, it is stored under another version.
func (v Ref) IsRecordOnly() bool {
	switch v.Variant.Kind {
	case ServedVariant, NestedVariant, KeysVariant:
		return true
	case NoVariant, PlatformVariant, SourceVariant, RewrittenVariant, BaseVariant, UnknownVariant:
	}
	return false
}

// hex returns the hexadecimal digits of s, or of the zero hash if s is not a sum.
func (s Sum) hex() string {
	hash, _ := s.Hash()
	return hex.EncodeToString(hash[:])
}

// NestedSource returns the key of a nested source that a package of v calls. base is a hash of the public URL for which that
// package was rewritten, and of the packages of v (see package nested). The key is the secret that lets a client download the
// source: it is written in the calling package.
func (v Ref) NestedSource(base string, sum Sum) Ref {
	return v.With(NestedVariant, base+"."+sum.hex())
}

// NestedSum returns the arguments of NestedSource. ok is false if v is not a nested source.
func (v Ref) NestedSum() (base string, sum Sum, ok bool) {
	if v.Variant.Kind != NestedVariant {
		return "", "", false
	}
	return parseNestedVariant(v.Variant.Value)
}

func parseNestedVariant(value string) (base string, sum Sum, ok bool) {
	base, digits, _ := strings.Cut(value, ".")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(Digest{}) || hex.EncodeToString(raw) != digits {
		return "", "", false
	}
	return base, NewSum([len(Digest{})]byte(raw)), true
}

// ForPlatform returns the key of a provider's zip archive for one platform. A verdict about v applies to all its archives.
func (v Ref) ForPlatform(p Platform) Ref { return v.With(PlatformVariant, p.OS+"-"+p.Arch) }

// Platform returns the argument of ForPlatform. ok is false if v is not the archive of a provider.
func (v Ref) Platform() (p Platform, ok bool) {
	if v.Variant.Kind != PlatformVariant {
		return Platform{}, false
	}
	return parsePlatformVariant(v.Variant.Value)
}

// VersionPlatform returns the version and the platform that users see for v. The platform is empty unless v is an archive.
func (v Ref) VersionPlatform() (version, platform string) {
	if p, isArchive := v.Platform(); isArchive {
		return v.Version, p.String()
	}
	return v.FullVersion(), ""
}

// IsArchive reports whether v is a provider's zip archive for one platform.
func (v Ref) IsArchive() bool { return v.Variant.Kind == PlatformVariant }

func parsePlatformVariant(value string) (p Platform, ok bool) {
	name := strings.Replace(value, "-", "_", 1)
	p, err := ParsePlatform(name)
	return p, err == nil && p.OS+"-"+p.Arch == value
}

// keysVersion is the version of the ledger records of signing keys.
const keysVersion = "0.0.0"

// SigningKeys returns the key of the ledger record of the keys that may sign a provider. It is the only Ref with [KeysContent].
func (m Address) SigningKeys() Ref { return m.At(keysVersion).With(KeysVariant, "") }

// LookupAs returns the ledger record of v. If v was served in the form of a package with that sum, LookupAs returns the record of
// that form.
func LookupAs(ctx context.Context, ledger interface {
	Lookup(ctx context.Context, v Ref) (Record, error)
}, v Ref, sum Sum) (Record, error) {
	rec, err := ledger.Lookup(ctx, v)
	if err != nil || rec.Sum == sum {
		return rec, err
	}
	served, err := ledger.Lookup(ctx, v.ServedAs(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	return served, err
}
