package modproxy

import (
	"fmt"
	"regexp"
)

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

// The grammar of terraform-registry-address (module.go), which both clients use.
var (
	namePattern   = regexp.MustCompile(`^[0-9A-Za-z](?:[0-9A-Za-z_-]{0,62}[0-9A-Za-z])?$`)
	systemPattern = regexp.MustCompile(`^[0-9a-z]{1,64}$`)
)

// Check reports, as [ErrInvalid], whether namespace, name or system break the
// grammar that the clients hold them to. The hostname is not looked at.
func (m Module) Check() error {
	switch {
	case !namePattern.MatchString(m.Namespace):
		return fmt.Errorf("%w: namespace %.80q: want 1 to 64 letters, digits, - and _, with a letter or digit at both ends", ErrInvalid, m.Namespace)
	case !namePattern.MatchString(m.Name):
		return fmt.Errorf("%w: module name %.80q: want 1 to 64 letters, digits, - and _, with a letter or digit at both ends", ErrInvalid, m.Name)
	case !systemPattern.MatchString(m.System):
		return fmt.Errorf("%w: target system %.80q: want 1 to 64 lower-case letters and digits", ErrInvalid, m.System)
	}
	return nil
}

// String is the module address as a user would write it in a source argument.
func (m Module) String() string {
	return m.Host + "/" + m.Namespace + "/" + m.Name + "/" + m.System
}
