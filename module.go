package modproxy

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Address is the address of a module or of a provider in a registry. A provider has no System: its address is
// hostname/namespace/type, with the type as its Name.
//
// Namespace, Name and System of a module are never normalised: not all registries fold case, so two spellings are two modules.
// Both must have the same content, see [Address.Folded] and package ledger.
type Address struct {
	Host      string // the registry's hostname, in the form that package hostname returns
	Namespace string
	Name      string
	System    string // the target system, for example aws; empty in the address of a provider, see [Address.Kind]
}

// maxName is the maximum length of a namespace, name or system, in bytes.
const maxName = 64

// Check returns [ErrInvalid] if namespace, name or system violate the grammar of the clients (terraform-registry-address
// module.go). It does not check the hostname.
func (m Address) Check() error {
	const name = "want 1 to 64 letters, digits, - and _, with a letter or digit at both ends"
	switch {
	case !isName(m.Namespace):
		return fmt.Errorf("%w: namespace %.80q: "+name, ErrInvalid, m.Namespace)
	case !isName(m.Name):
		return fmt.Errorf("%w: module name %.80q: "+name, ErrInvalid, m.Name)
	case m.System == "" || len(m.System) > maxName || strings.ContainsFunc(m.System, func(r rune) bool { return !isDigit(r) && !isLower(r) }):
		return fmt.Errorf("%w: target system %.80q: want 1 to 64 lower-case letters and digits", ErrInvalid, m.System)
	}
	return nil
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }
func isLower(r rune) bool { return 'a' <= r && r <= 'z' }

// isPlain reports whether r is an ASCII letter or digit, or a hyphen.
func isPlain(r rune) bool { return isDigit(r) || isLower(r) || 'A' <= r && r <= 'Z' || r == '-' }

func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, "-_") == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !isPlain(r) && r != '_' })
}

// String returns the address in the form of a source argument.
func (m Address) String() string {
	switch m.Kind() {
	case Provider:
		return m.Host + "/" + m.Namespace + "/" + m.Name
	case Module:
	}
	return m.Host + "/" + m.Namespace + "/" + m.Name + "/" + m.System
}

// WithoutHost returns the address within its registry: namespace/name/system, or namespace/type.
func (m Address) WithoutHost() string { return m.String()[len(m.Host)+len("/"):] }

// Folded returns m in lower case. Addresses that a registry may treat as equal have the same Folded address.
func (m Address) Folded() Address {
	return Address{strings.ToLower(m.Host), strings.ToLower(m.Namespace), strings.ToLower(m.Name), strings.ToLower(m.System)}
}

// Ref identifies one version of a module or provider, or a variant of it.
type Ref struct {
	Address
	Version string  // canonical, as [Version.String] prints it; empty for all versions, where documented
	Variant Variant `json:"-"` // stored as a part of [Ref.FullVersion]
}

// Folded returns v with its address in lower case, see [Address.Folded].
func (v Ref) Folded() Ref { return Ref{v.Address.Folded(), v.Version, v.Variant} }

// String returns the address, a blank and the full version. If the version is empty, it returns the address.
func (v Ref) String() string {
	if v.Version == "" {
		return v.Address.String()
	}
	return v.Address.String() + " " + v.FullVersion()
}

// Shown returns v for people: archives with their platform, signing keys by name, and other variants as String returns them.
func (v Ref) Shown() string {
	switch v.Content() {
	case ArchiveContent:
		p, _ := v.Platform()
		return v.Base().String() + " for " + p.String()
	case KeysContent:
		return v.Address.String() + " signing keys"
	case ModuleContent, ReleaseContent:
	}
	return v.String()
}

// Record describes one version of a module or provider: its content when first seen, or the content that an operator has
// accepted since. It is a record of the ledger. The records of package store are entries of an index, of another type.
type Record struct {
	Ref `json:"-"`

	Sum    Sum       `json:"sum"`
	Subdir string    `json:"subdir,omitempty"` // the module's directory in the package; "." for the whole package, empty if unknown
	Source Source    `json:"source,omitzero"`  // the origin of the content; may be zero
	Time   time.Time `json:"time"`             // when the version was first seen, or accepted; not zero
	Reason string    `json:"reason,omitempty"` // why an operator accepted it, one line of at most 1,024 bytes; empty if first seen
	ProviderFacts
}

// Location returns the recorded source of a module as a location.
func (r Record) Location() Location {
	l := Location{URL: r.Source.URL}
	l.Getter, _, _ = strings.Cut(l.URL, ":")
	if r.Source.Commit != "" {
		if l.Getter != "oci" {
			l.Getter = "git"
		}
		l = l.AtCommit(r.Source.Commit)
	}
	if r.Subdir != "." {
		l.Subdir = r.Subdir
	}
	return l
}

// Is reports whether r matches a package with that sum and subdir. An empty subdir means the whole package.
func (r Record) Is(sum Sum, subdir string) bool {
	return r.Sum == sum && (r.Subdir == "" || r.Subdir == cmp.Or(subdir, "."))
}
