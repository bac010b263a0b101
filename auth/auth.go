// Package auth identifies clients, and decides what they may read.
//
// Invariant: a client is identified only by what was given to it, shown unaltered and in time: a token, or a
// signed package path. What an id or a name looks like gives no right. What cannot be checked, because a file
// is damaged or gone, is refused. A module that a client may not read does not exist for it.
//
// A change of the token file or of the key file counts in every process that has it open within a second while
// requests come in, and never later than five; a new token counts at once.
//
// Two things are secret and appear in no error and no log: the text of a token, of which only a hash is kept,
// and the segment of a signed package path.
package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// Kind is how a principal was identified.
type Kind uint8

const (
	Nobody   Kind = iota // not identified; may do nothing
	ByToken              // showed a token of [Tokens]
	ByIssuer             // showed a token that an identity provider signed
	ByOwner              // has come by a way that only the owner of the data directory has
)

func (k Kind) String() string {
	names := [...]string{"nobody", "token", "issuer", "operator"}
	if int(k) >= len(names) {
		return names[Nobody]
	}
	return names[k]
}

// Grant is what a principal may do. The zero Grant is nothing.
type Grant struct {
	Scopes Scopes // whose modules may be read
	Admin  bool   // may operate the proxy; it does not make anything readable
}

// MayRead reports whether one of the scopes covers m.
func (g Grant) MayRead(m modproxy.Module) bool { return g.Scopes.Covers(m) }

// MayReadOf reports whether one of the scopes covers modules of a namespace of host, or of any namespace when
// that is empty.
func (g Grant) MayReadOf(host, namespace string) bool {
	return slices.ContainsFunc(g.Scopes, func(s Scope) bool {
		return covers(s.Host, host) && (namespace == "" || covers(s.Namespace, namespace))
	})
}

// MayReadAll reports whether one of the scopes covers every module.
func (g Grant) MayReadAll() bool { return slices.Contains(g.Scopes, Everything) }

// Principal is the client that sent a request. The zero Principal is [Nobody]. Its slices are shared: they are
// not changed.
type Principal struct {
	Kind   Kind
	ID     string    // unique within Kind; not secret
	Name   string    // for people and logs; need not be unique
	Groups []string  // the groups that the grant comes from, ByIssuer only
	Until  time.Time // when what was shown expires; zero for never
	Grant
}

// Owner is the owner of the data directory, who operates the proxy without a token.
var Owner = Principal{Kind: ByOwner, Grant: Grant{Admin: true}}

// String names the principal in a log: "token ci (ab…)".
func (p Principal) String() string {
	s := p.Kind.String()
	if p.Name != "" {
		s += " " + p.Name
	}
	if p.ID != "" {
		s += " (" + p.ID + ")"
	}
	return s
}

// Refused is the error for clients that are not identified: [modproxy.ErrUnauthorized]. Its text, which they are
// shown, tells only whether they showed a credential. Why is for the log, and has nothing secret.
type Refused struct{ Why string }

const noCredential = "no credential"

func (r *Refused) Error() string {
	if r.Why == noCredential {
		return "unauthorized: no token was shown"
	}
	return "unauthorized: the token is not known, has expired or was revoked"
}

func (*Refused) Unwrap() error { return modproxy.ErrUnauthorized }

type contextKey struct{}

// WithPrincipal returns a context of a request from p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, &p)
}

// PrincipalOf returns the principal that sent the request of ctx; the zero Principal unless [WithPrincipal]
// gave it one.
func PrincipalOf(ctx context.Context) Principal {
	if p, ok := ctx.Value(contextKey{}).(*Principal); ok {
		return *p
	}
	return Principal{}
}

// Registry gives the principal of the context the answers of Next. A module that the principal may not read is not
// found, and Next is not asked. A context without a principal is refused.
type Registry struct{ Next modproxy.Registry }

// Versions returns the answer of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	if err := mayRead(ctx, "versions", m.At("")); err != nil {
		return nil, err
	}
	return r.Next.Versions(ctx, m)
}

// Location returns the answer of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Location, error) {
	if err := mayRead(ctx, "location", v); err != nil {
		return modproxy.Location{}, err
	}
	return r.Next.Location(ctx, v)
}

// Package returns the answer of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	if err := mayRead(ctx, "package", v); err != nil {
		return nil, err
	}
	return r.Next.Package(ctx, v)
}

func mayRead(ctx context.Context, op string, v modproxy.ModuleVersion) error {
	p := PrincipalOf(ctx)
	switch {
	case p.Kind == Nobody:
		return &Refused{"the request has no principal"}
	case !p.MayRead(v.Module):
		return &modproxy.Error{Op: op, Module: v.Module, Version: v.Version, Err: modproxy.ErrNotFound}
	}
	return nil
}

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
