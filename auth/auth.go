// Package auth identifies clients and decides which modules they may read.
//
//	a := &auth.Authenticator{Tokens: tokens, Signer: signer}
//	p, err := a.Identify(ctx, header, now)
//	reg = &auth.Registry{Next: reg} // answers for the principal in the context, see WithPrincipal
//
// Invariants:
//
//   - A client is identified only by a credential that it received, unaltered and unexpired: a token, or a signed package path.
//     The form of an id or a name grants no right.
//   - If a credential cannot be checked, because a file is damaged or missing, it is refused.
//   - A module that a client may not read does not exist for that client, except where [Open] allows a denial with the reason.
//   - The text of a token is stored as a hash only. It and the segment of a signed package path are secret: neither appears in
//     an error or a log.
//   - While requests arrive, a change of the token file or the key file takes effect within a second in every process that has
//     the file open, and never later than five seconds. A new token works at once.
//
// [Token], [SignerConfig] and [Scope] specify the rules; package auth/oidc has those for tokens of identity providers.
package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// Kind is the way in which a principal was identified.
type Kind uint8

const (
	Nobody    Kind = iota // not identified; has no rights
	ByToken               // by a token of [Tokens]
	ByIssuer              // by a token that an identity provider signed
	ByOwner               // through a channel that only the owner of the data directory can use
	ByAddress             // by the unguessable address of a nested source
	Anonymous             // without a credential, for modules that need none
)

func (k Kind) String() string {
	if k > Anonymous {
		k = Nobody
	}
	return [...]string{"unidentified", "token", "issuer", "operator", "address", "anonymous"}[k]
}

// Grant is the set of rights of a principal. The zero Grant has no rights.
type Grant struct {
	Scopes  Scopes // the modules that may be read
	Admin   bool   // may operate the proxy; makes no module readable
	Refresh bool   // may refresh the versions of the modules that Scopes cover
}

// MayRead reports whether one of the scopes covers m.
func (g Grant) MayRead(m modproxy.Address) bool { return g.Scopes.Covers(m) }

// MayRefresh reports whether the principal may refresh the versions of m. An operator may refresh those of all modules.
func (g Grant) MayRefresh(m modproxy.Address) bool { return g.Admin || g.Refresh && g.MayRead(m) }

// MayReadOf reports whether one of the scopes covers modules in a namespace of host. An empty namespace means any namespace;
// [AnySegment] means that one scope must cover all namespaces.
func (g Grant) MayReadOf(host, namespace string) bool {
	return slices.ContainsFunc(g.Scopes, func(s Scope) bool {
		return covers(s.Host, host) && (namespace == "" || covers(s.Namespace, namespace))
	})
}

// Principal is the client that sent a request. The zero Principal is not identified. Its slices must not be modified.
type Principal struct {
	Kind   Kind
	ID     string    // unique within Kind; not secret
	Name   string    // for people and logs; not necessarily unique
	Groups []string  // the groups that the grant comes from; for ByIssuer only
	Until  time.Time // when the credential expires; zero: never
	Grant
}

// Owner is the principal for the owner of the data directory, who operates the proxy without a token.
var Owner = Principal{Kind: ByOwner, Grant: Grant{Admin: true}}

// HasAddress returns the principal of a request with the address of a nested source of m. It does not check that the source
// exists.
func HasAddress(m modproxy.Address) Principal {
	return Principal{Kind: ByAddress, Grant: Grant{Scopes: Scopes{{m.Host, m.Namespace}}}}
}

// RuleGroups returns the groups whose policy rules apply to the principal: its own groups, or the name of its token.
func (p Principal) RuleGroups() []string {
	if p.Kind == ByToken && p.Name != "" {
		return []string{p.Name}
	}
	return p.Groups
}

// String returns the name of the principal for a log: "token ci (ab…)".
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

// Refused is the error for clients that are not identified: [modproxy.ErrUnauthorized]. Clients receive its text, which says
// only whether a credential was present, unless Told has more. Why is for the log. Neither contains a secret.
type Refused struct{ Why, Told string }

const noCredential = "no credential"

func (r *Refused) Error() string {
	switch {
	case r.Why == noCredential:
		return "unauthorized: no token was sent"
	case r.Told != "":
		return "unauthorized: " + r.Told
	}
	return "unauthorized: the token is not known, has expired or was revoked"
}

func (*Refused) Unwrap() error { return modproxy.ErrUnauthorized }

type contextKey struct{}

// WithPrincipal returns a context for a request of p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, &p)
}

// PrincipalOf returns the principal of ctx, see [WithPrincipal], or the zero Principal.
func PrincipalOf(ctx context.Context) Principal {
	if p, ok := ctx.Value(contextKey{}).(*Principal); ok {
		return *p
	}
	return Principal{}
}

// Registry returns Next's answers for modules that the principal of the context may read. For other modules the error is an
// [*Outside]. For a context without a principal it is a [*Refused]. In neither case does it call Next, except for ListOutside.
type Registry struct {
	Next modproxy.Registry
	Open Open
	// ListOutside, if not nil, reports whether Versions lists modules of [Open] registries for principals that may not read
	// them. Installing clients then request a version and print the reason with which Location denies it.
	ListOutside func() bool
	// Contact, if not nil, returns the contact that warnings name.
	Contact func() string
}

// Versions returns the answer of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	err := r.Open.mayRead(ctx, "versions", m.At(""))
	if err == nil {
		return r.Next.Versions(ctx, m)
	}
	outside, ok := errors.AsType[*Outside](err)
	if !ok || outside.Hidden || r.ListOutside == nil || !r.ListOutside() {
		return nil, err
	}
	v, errNext := r.Next.Versions(ctx, m)
	if errNext == nil && m.Kind().HasWarnings() {
		ask := "the operator of this proxy"
		if r.Contact != nil {
			ask = cmp.Or(r.Contact(), ask)
		}
		v, errNext = v.Warn(fmt.Sprintf("%s: %v; ask %s", m, outside, ask))
	}
	if errNext != nil {
		return nil, err
	}
	return v, nil
}

// Location returns the answer of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	if err := r.Open.mayRead(ctx, "location", v); err != nil {
		return modproxy.Location{}, err
	}
	return r.Next.Location(ctx, v)
}

// Package returns the answer of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if err := r.Open.mayRead(ctx, "package", v); err != nil {
		return nil, err
	}
	return r.Next.Package(ctx, v)
}

func (open Open) mayRead(ctx context.Context, op string, v modproxy.Ref) error {
	p := PrincipalOf(ctx)
	switch {
	case p.Kind == Nobody:
		return &Refused{Why: "the request has no principal"}
	case !p.MayRead(v.Address):
		return modproxy.Wrap(op, v, open.outside(p, v.Address))
	}
	return nil
}

// AnySegment is the segment that matches every segment.
const AnySegment = "*"

// Scope covers the modules of one registry and namespace. Each segment must match byte for byte, or is "*" for all. A segment cannot
// have a pattern for a part of it. The zero Scope covers nothing.
type Scope struct {
	Host      string // as package hostname normalises it, or "*"
	Namespace string // as in the module address, or "*"
}

// Everything is the scope that covers every module.
var Everything = Scope{AnySegment, AnySegment}

// ParseScope parses host/namespace, where each may be "*", or a single "*" for every module. The host must be normalised: lower
// case, no port 443. The error is [modproxy.ErrInvalid].
func ParseScope(s string) (Scope, error) {
	if s == AnySegment {
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
	m := modproxy.Address{Namespace: s.Namespace, Name: "a", System: "a"}
	// The host need not be normalised exactly: any other string matches no module's host.
	host := s.Host == AnySegment || s.Host != "" && len(s.Host) <= 259 && strings.IndexByte("-.:", s.Host[0]) < 0 &&
		strings.Trim(s.Host, "abcdefghijklmnopqrstuvwxyz0123456789-.:") == ""
	return host && (s.Namespace == AnySegment || m.Check() == nil)
}

// Scopes is a list of scopes. It covers the modules that any of them covers.
type Scopes []Scope

// Covers reports whether one of the scopes covers m. For a provider, the case of the namespace is ignored, because clients
// fold it.
func (all Scopes) Covers(m modproxy.Address) bool {
	return slices.ContainsFunc(all, func(s Scope) bool {
		if m.Kind().FoldsCase() {
			s.Namespace = strings.ToLower(s.Namespace)
		}
		return covers(s.Host, m.Host) && covers(s.Namespace, m.Namespace)
	})
}

// namespaces returns the sorted namespaces of host that the scopes name. every reports whether they cover all namespaces.
func (all Scopes) namespaces(host string) (names []string, every bool) {
	for _, s := range all {
		if covers(s.Host, host) {
			names, every = append(names, s.Namespace), every || s.Namespace == AnySegment
		}
	}
	slices.Sort(names)
	return slices.Compact(names), every
}

func covers(segment, of string) bool {
	return segment != "" && (segment == AnySegment || segment == of)
}

// String returns the text that [ParseScope] parses.
func (s Scope) String() string {
	if s == Everything {
		return AnySegment
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

// Challenge is the value of the WWW-Authenticate header in responses with status 401.
const Challenge = `Bearer realm="modproxy"`

// Verifier identifies clients by JSON Web Tokens.
type Verifier interface {
	// Verify returns the principal of text, a token. If the token is refused, the error is a [*Refused]. If it cannot be
	// checked now, the error is [modproxy.ErrUnavailable]. now is from [time.Now].
	Verify(ctx context.Context, text string, now time.Time) (Principal, error)
	// Login returns the place where people obtain such tokens, or nil if it is unknown. It does not block.
	Login(now time.Time) *Login
}

// Authenticator identifies the clients of requests. It is safe for concurrent use.
type Authenticator struct {
	Tokens *Tokens  // nil: no token is valid
	JWT    Verifier // nil: no JSON Web Token is valid
	Signer *Signer  // nil: no signed path is valid
	// Anonymous are the scopes that are readable without a credential, and with any valid one.
	Anonymous Scopes
	Open      Open
}

// Identify returns the principal that sent a request with the given header. The credential is a token. It is either a bearer
// token, which clients send for the registry's host, or the password of basic authentication with any user name, which clients
// send from .netrc. now is from [time.Now]. The error is a [*Refused], also for a request without a credential, or
// [modproxy.ErrUnavailable].
func (a *Authenticator) Identify(ctx context.Context, header http.Header, now time.Time) (Principal, error) {
	p, err := a.verify(ctx, header, now)
	if err == nil && len(a.Anonymous) > 0 {
		p.Scopes = slices.Concat(p.Scopes, a.Anonymous)
	}
	return p, err
}

func (a *Authenticator) verify(ctx context.Context, header http.Header, now time.Time) (Principal, error) {
	values := header["Authorization"]
	if len(values) == 0 {
		return Principal{}, &Refused{Why: noCredential}
	}
	switch text := credential(values[0]); {
	case len(values) > 1:
		return Principal{}, &Refused{Why: "more than one credential"}
	case text == "":
		return Principal{}, &Refused{Why: "neither a bearer token nor basic authentication"}
	case strings.HasPrefix(text, tokenPrefix) && a.Tokens != nil:
		return a.Tokens.Verify(text, now)
	case strings.Count(text, ".") == 2 && a.JWT != nil:
		return a.JWT.Verify(ctx, text, now)
	}
	refused := &Refused{Why: "not a credential that this proxy knows"}
	if a.Login(now) != nil { // many issuers hand out opaque tokens that only they can read
		refused.Told = "the token was not created by modproxy and is not a JSON Web Token, as access tokens of the issuer must be"
	}
	return Principal{}, refused
}

// Anybody returns the anonymous principal if the request needs no credential: it has none, and Anonymous covers m. If m has no
// name, it means all modules of a namespace or a registry, and it is enough that Anonymous covers some of them.
func (a *Authenticator) Anybody(header http.Header, m modproxy.Address) (Principal, bool) {
	p := Principal{Kind: Anonymous, Grant: Grant{Scopes: a.Anonymous}}
	some := m.Host != "" && m.Name == "" && p.MayReadOf(m.Host, m.Namespace)
	if len(header["Authorization"]) > 0 || !some && !p.MayRead(m) {
		return Principal{}, false
	}
	return p, true
}

// AnybodyOfAll returns the anonymous principal if the request needs no credential, regardless of its subject: the request has
// none, and Anonymous covers every module of all hosts. hosts must have at least one element.
func (a *Authenticator) AnybodyOfAll(header http.Header, hosts iter.Seq[string]) (Principal, bool) {
	p := Principal{Kind: Anonymous, Grant: Grant{Scopes: a.Anonymous}}
	some := false
	for host := range hosts {
		if some = p.MayReadOf(host, AnySegment); !some {
			break
		}
	}
	if len(header["Authorization"]) > 0 || !some {
		return Principal{}, false
	}
	return p, true
}

// Still returns nil while p is valid: its token is neither revoked nor expired. It is for requests in progress. now is from
// [time.Now]. Errors are those of Identify.
func (a *Authenticator) Still(p Principal, now time.Time) error {
	switch {
	case p.Kind == ByToken && a.Tokens != nil:
		_, err := a.Tokens.byID(p.ID, now)
		return err
	case p.Kind == ByIssuer && !p.Until.IsZero() && !now.Before(p.Until.Add(maxSkew)):
		return &Refused{Why: p.String() + " has expired"}
	}
	return nil
}

// Package returns the principal that requests the package of m at path, in the canonical spelling. The segment in front of the
// path, as [CutSegment] returns it, identifies the principal. Without a segment, the header does, unless Anybody allows the
// request. Errors are those of Identify. If the principal may not read m, it is returned with an [*Outside].
func (a *Authenticator) Package(ctx context.Context, header http.Header, segment, path string, m modproxy.Address, now time.Time) (Principal, error) {
	if segment != "" {
		if a.Signer == nil {
			return Principal{}, &Refused{Why: "no path is signed here"}
		}
		p, err := a.Signer.Redeem(segment, path, m, now)
		if errors.Is(err, modproxy.ErrNotFound) {
			err = a.Open.outside(p, m)
		}
		return p, err
	}
	if p, ok := a.Anybody(header, m); ok {
		return p, nil
	}
	p, err := a.Identify(ctx, header, now)
	if err == nil && !p.MayRead(m) {
		err = a.Open.outside(p, m)
	}
	return p, err
}

// Path returns the path at which p, which may read m, can download the package of m at path. Because clients send no credential
// for packages, the path is signed, unless m is readable without one. now is from [time.Now]. Errors are those of
// [Signer.Path].
func (a *Authenticator) Path(p Principal, path string, m modproxy.Address, now time.Time) (string, error) {
	if a.Signer == nil || a.Anonymous.Covers(m) {
		return path, nil
	}
	return a.Signer.Path(p, path, now)
}

// credential returns the token in an Authorization header of at most 32 KiB, or an empty string.
func credential(value string) string {
	scheme, rest, _ := strings.Cut(value, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case len(value) > 32<<10:
	case strings.EqualFold(scheme, "Bearer"):
		return rest
	case strings.EqualFold(scheme, "Basic"):
		if pair, err := base64.StdEncoding.DecodeString(rest); err == nil {
			_, password, _ := strings.Cut(string(pair), ":")
			return password
		}
	}
	return ""
}
