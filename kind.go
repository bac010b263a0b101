package modproxy

// AddressKind is the kind of an [Address]. The zero value is not a kind, and [Address.Kind] never returns it.
type AddressKind uint8

// The kinds of addresses. A switch over the kind names all of them: "make check" rejects any other.
const (
	Module   AddressKind = iota + 1 // host/namespace/name/system
	Provider                        // host/namespace/type
)

// Kind returns the kind of m. Every address without a System is that of a provider, even the zero Address. The kind of a [Ref]
// is that of its address; see [Ref.Content] for what the Ref identifies.
func (m Address) Kind() AddressKind {
	if m.System == "" {
		return Provider
	}
	return Module
}

// IsModule reports whether m is the address of a module. Use it for what only modules have, and a switch over Kind for a choice
// between two behaviours.
func (m Address) IsModule() bool { return m.Kind() == Module }

// IsProvider reports whether m is the address of a provider. Use it for what only providers have, like IsModule.
func (m Address) IsProvider() bool { return m.Kind() == Provider }

// FoldsCase reports whether clients write addresses of this kind in lower case only.
func (k AddressKind) FoldsCase() bool {
	switch k {
	case Provider:
		return true
	case Module:
	}
	return false
}

// HasWarnings reports whether a versions document of this kind has warnings, which clients print; see [Versions.Warn].
func (k AddressKind) HasWarnings() bool {
	switch k {
	case Provider:
		return true
	case Module:
	}
	return false
}

// ContentKind is the kind of content that a [Ref] identifies. The zero value is not a kind, and [Ref.Content] never returns it.
type ContentKind uint8

// The kinds of content. A loop over the records of a ledger meets all of them.
const (
	ModuleContent  ContentKind = iota + 1 // a module's package, in the form that package pack specifies, or its record
	ReleaseContent                        // a provider's release, in the form that package release describes
	ArchiveContent                        // a provider's zip archive for one platform; see [Ref.ForPlatform]
	KeysContent                           // the keys that may sign a provider: not a version, and in the ledger only; see [Address.SigningKeys]
)

// Content returns the kind of content that v identifies. It follows from the kinds of the address and the variant.
func (v Ref) Content() ContentKind {
	switch v.Kind() {
	case Module:
		return ModuleContent
	case Provider:
	}
	switch v.Variant.Kind {
	case PlatformVariant:
		return ArchiveContent
	case KeysVariant:
		return KeysContent
	case NoVariant, SourceVariant, RewrittenVariant, ServedVariant, NestedVariant, BaseVariant, UnknownVariant:
	}
	return ReleaseContent
}
