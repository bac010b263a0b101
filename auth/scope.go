package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// anySegment is the segment that equals every segment.
const anySegment = "*"

// maxHost bounds the host of a scope, in bytes.
const maxHost = 259

// Scope covers the modules of one registry and namespace. Each segment equals one string, byte for byte, or is
// "*" for every; there are no prefixes and no patterns inside a segment. The zero Scope covers nothing.
type Scope struct {
	Host      string // as package hostname normalises it, or "*"
	Namespace string // as the module address has it, or "*"
}

// Everything is the scope that covers every module.
var Everything = Scope{anySegment, anySegment}

// ParseScope reads host/namespace, of which each may be "*", or "*" alone for every module. The host is
// normalised already: lower case, no port 443.
//
// Its error is [modproxy.ErrInvalid].
func ParseScope(s string) (Scope, error) {
	if s == anySegment {
		return Everything, nil
	}
	host, namespace, ok := strings.Cut(s, "/")
	scope := Scope{host, namespace}
	if !ok || !scope.valid() {
		return Scope{}, fmt.Errorf("%w: scope %.100q: want {host}/{namespace}, as in registry.terraform.io/acme, "+
			"where either may be * as a whole, or * for everything", modproxy.ErrInvalid, s)
	}
	return scope, nil
}

func (s Scope) valid() bool {
	m := modproxy.Module{Namespace: s.Namespace, Name: "a", System: "a"}
	return (s.Host == anySegment || isHost(s.Host)) && (s.Namespace == anySegment || m.Check() == nil)
}

// isHost reports whether s can be a normalised host. It need not be exact: another string equals no module's
// host.
func isHost(s string) bool {
	return 0 < len(s) && len(s) <= maxHost && strings.IndexByte("-.:", s[0]) < 0 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.:") == ""
}

// Covers reports whether m is one of the scope's modules.
func (s Scope) Covers(m modproxy.Module) bool {
	return covers(s.Host, m.Host) && covers(s.Namespace, m.Namespace)
}

// Scopes are several scopes.
type Scopes []Scope

// Covers reports whether one of the scopes covers m.
func (all Scopes) Covers(m modproxy.Module) bool {
	return slices.ContainsFunc(all, func(s Scope) bool { return s.Covers(m) })
}

func covers(segment, of string) bool {
	return segment != "" && (segment == anySegment || segment == of)
}

// String returns what [ParseScope] reads.
func (s Scope) String() string {
	if s == Everything {
		return anySegment
	}
	return s.Host + "/" + s.Namespace
}

// MarshalText implements [encoding.TextMarshaler].
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; its error is that of [ParseScope].
func (s *Scope) UnmarshalText(text []byte) (err error) {
	*s, err = ParseScope(string(text))
	return err
}
