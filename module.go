package modproxy

import "fmt"

// Module is a module address: a name in a registry.
//
// Namespace, Name and System are case-sensitive and never normalised: registries
// differ in whether they fold case, so two spellings are two modules here.
type Module struct {
	Host      string // the registry's hostname, as package hostname normalises it
	Namespace string
	Name      string
	System    string // the target system, for example aws
}

// maxName is the longest namespace, name or system, in bytes.
const maxName = 64

// Check reports, as [ErrInvalid], whether namespace, name or system break the
// grammar that the clients hold them to (terraform-registry-address module.go).
// The hostname is not looked at.
func (m Module) Check() error {
	switch {
	case !isName(m.Namespace):
		return fmt.Errorf("%w: namespace %.80q: want 1 to 64 letters, digits, - and _, with a letter or digit at both ends", ErrInvalid, m.Namespace)
	case !isName(m.Name):
		return fmt.Errorf("%w: module name %.80q: want 1 to 64 letters, digits, - and _, with a letter or digit at both ends", ErrInvalid, m.Name)
	case !isSystem(m.System):
		return fmt.Errorf("%w: target system %.80q: want 1 to 64 lower-case letters and digits", ErrInvalid, m.System)
	}
	return nil
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		inside := 0 < i && i < len(s)-1
		if !isDigit(c) && !isLower(c) && !('A' <= c && c <= 'Z') && !(inside && (c == '-' || c == '_')) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= maxName
}

func isSystem(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) && !isLower(s[i]) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= maxName
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// String is the module address as a user would write it in a source argument.
func (m Module) String() string {
	return m.Host + "/" + m.Namespace + "/" + m.Name + "/" + m.System
}

// ModuleVersion is one version of a module.
type ModuleVersion struct {
	Module
	Version string // canonical, as [Version.String] prints it; empty stands for every version where that is said
}

// At returns a version of m.
func (m Module) At(version string) ModuleVersion { return ModuleVersion{m, version} }

// String returns the module address, and the version after a blank unless it is empty.
func (v ModuleVersion) String() string {
	if v.Version == "" {
		return v.Module.String()
	}
	return v.Module.String() + " " + v.Version
}
