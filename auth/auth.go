// Package auth identifies clients, and decides what they may read.
//
// Invariant: a client is identified only by what was given to it, shown unaltered and in time: a token, or a
// signed package path. What an id or a name looks like gives no right. What cannot be checked, because a file
// is damaged or gone, is refused. A module that a client may not read does not exist for it.
//
// A change of the token file or of the key file counts in every process that has it open within a second while
// requests come in, and never later than five; a new token counts at once. The text of a token, of which only a hash
// is kept, and the segment of a signed package path are secret, and appear in no error and no log.
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

// Kind is how a principal was identified.
type Kind uint8

const (
	Nobody    Kind = iota // not identified; may do nothing
	ByToken               // showed a token of [Tokens]
	ByIssuer              // showed a token that an identity provider signed
	ByOwner               // has come by a way that only the owner of the data directory has
	ByAddress             // has an address that nobody can guess, of what a package calls
	Anonymous             // showed no credential, and asks for what anybody may read
)

func (k Kind) String() string {
	if k > Anonymous {
		k = Nobody
	}
	return [...]string{"nobody", "token", "issuer", "operator", "address", "anonymous"}[k]
}

// Grant is what a principal may do. The zero Grant is nothing.
type Grant struct {
	Scopes  Scopes // whose modules may be read
	Admin   bool   // may operate the proxy; it does not make anything readable
	Refresh bool   // may have the versions of what Scopes cover requested anew
}

// MayRead reports whether one of the scopes covers m.
func (g Grant) MayRead(m modproxy.Address) bool { return g.Scopes.Covers(m) }

// MayRefresh reports whether the versions of m may be requested anew: an operator refreshes all modules.
func (g Grant) MayRefresh(m modproxy.Address) bool { return g.Admin || g.Refresh && g.MayRead(m) }

// MayReadOf reports whether one of the scopes covers modules of a namespace of host; if that is empty, of any, and if it is
// [AnySegment], of every one.
func (g Grant) MayReadOf(host, namespace string) bool {
	return slices.ContainsFunc(g.Scopes, func(s Scope) bool {
		return covers(s.Host, host) && (namespace == "" || covers(s.Namespace, namespace))
	})
}

// Principal is the client that sent a request. The zero Principal is [Nobody]. Its slices are not changed.
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

// HasAddress is the principal that has the address of what a package of m calls. Whether there is such an address is not
// known yet.
func HasAddress(m modproxy.Address) Principal {
	return Principal{Kind: ByAddress, Grant: Grant{Scopes: Scopes{{m.Host, m.Namespace}}}}
}

// RuleGroups returns the groups whose rules hold for the principal: its own, or the name of its token.
func (p Principal) RuleGroups() []string {
	if p.Kind == ByToken && p.Name != "" {
		return []string{p.Name}
	}
	return p.Groups
}

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
// shown, tells only whether they showed a credential, unless Told says more. Why is for the log. Neither has anything
// secret.
type Refused struct{ Why, Told string }

const noCredential = "no credential"

func (r *Refused) Error() string {
	switch {
	case r.Why == noCredential:
		return "unauthorized: no token was shown"
	case r.Told != "":
		return "unauthorized: " + r.Told
	}
	return "unauthorized: the token is not known, has expired or was revoked"
}

func (*Refused) Unwrap() error { return modproxy.ErrUnauthorized }

type contextKey struct{}

// WithPrincipal returns a context of a request from p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, &p)
}

// PrincipalOf returns the principal that [WithPrincipal] gave ctx, or the zero Principal.
func PrincipalOf(ctx context.Context) Principal {
	if p, ok := ctx.Value(contextKey{}).(*Principal); ok {
		return *p
	}
	return Principal{}
}

// Registry gives the principal of the context the answers of Next. Of a module that the principal may not read the error is an
// [*Outside], and a context without a principal is refused, without asking Next.
type Registry struct {
	Next modproxy.Registry
	Open Open
	// ListOutside, if not nil, reports whether Versions lists the versions of modules of [Open] registries for principals that may
	// not read them. Clients that install then request one, and print why Location denies it.
	ListOutside func() bool
	// Contact, if not nil, returns whom people ask: warnings name it.
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
	if errNext == nil && m.IsProvider() { // clients print warnings
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

// AnySegment is the segment that equals every segment.
const AnySegment = "*"

// Scope covers the modules of one registry and namespace. Each segment is equal byte for byte, or "*" for every; there
// are no patterns inside a segment. The zero Scope covers nothing.
type Scope struct {
	Host      string // as package hostname normalises it, or "*"
	Namespace string // as the module address has it, or "*"
}

// Everything is the scope that covers every module.
var Everything = Scope{AnySegment, AnySegment}

// ParseScope reads host/namespace, of which each may be "*", or "*" alone for every module. The host is normalised
// already: lower case, no port 443. Its error is [modproxy.ErrInvalid].
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
	// A host need not be exact: another string equals no module's host.
	host := s.Host == AnySegment || s.Host != "" && len(s.Host) <= 259 && strings.IndexByte("-.:", s.Host[0]) < 0 &&
		strings.Trim(s.Host, "abcdefghijklmnopqrstuvwxyz0123456789-.:") == ""
	return host && (s.Namespace == AnySegment || m.Check() == nil)
}

// Scopes are several scopes.
type Scopes []Scope

// Covers reports whether one of the scopes covers m. Of a provider the case of the namespace does not count, which clients fold.
func (all Scopes) Covers(m modproxy.Address) bool {
	return slices.ContainsFunc(all, func(s Scope) bool {
		if m.IsProvider() {
			s.Namespace = strings.ToLower(s.Namespace)
		}
		return covers(s.Host, m.Host) && covers(s.Namespace, m.Namespace)
	})
}

// namespaces returns the namespaces of host that the scopes name, in their order, and whether they cover every one.
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

// String returns what [ParseScope] reads.
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

// Challenge is for the WWW-Authenticate header of an answer with status 401.
const Challenge = `Bearer realm="modproxy"`

// Verifier identifies clients by JSON Web Tokens.
type Verifier interface {
	// Verify returns the principal that text, a token, is for. Its error is a [*Refused], or
	// [modproxy.ErrUnavailable] when the principal cannot be known. now is from [time.Now].
	Verify(ctx context.Context, text string, now time.Time) (Principal, error)
	// Login returns where people get such tokens, or nil if that is not known. It does not wait.
	Login(now time.Time) *Login
}

// Authenticator identifies the clients of requests. It is safe for concurrent use.
type Authenticator struct {
	Tokens *Tokens  // nil: no token is good
	JWT    Verifier // nil: no JSON Web Token is good
	Signer *Signer  // nil: no signed path is good
	// Anonymous are the scopes of what may be read without a credential, and so with any that is good.
	Anonymous Scopes
	Open      Open
}

// Identify returns the principal that sent a request with the given header. The credential is a token: a bearer token,
// as clients show what they have for the registry's host, or the password of basic authentication with any user name,
// as they show what .netrc has. now is from [time.Now]. Errors: a [*Refused], also for a request without a credential,
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
	if a.Login(now) != nil { // which many issuers give out tokens by that only they can read
		refused.Told = "the token is neither one that modproxy has made, nor a JSON Web Token, which the issuer's access tokens have to be"
	}
	return Principal{}, refused
}

// Anybody returns the principal that sent a request about m, and whether it needs no credential: the request has none, and
// m is covered by Anonymous. Without a name m stands for the modules of a namespace, or of a registry, of which some are.
func (a *Authenticator) Anybody(header http.Header, m modproxy.Address) (Principal, bool) {
	p := Principal{Kind: Anonymous, Grant: Grant{Scopes: a.Anonymous}}
	some := m.Host != "" && m.Name == "" && p.MayReadOf(m.Host, m.Namespace)
	if len(header["Authorization"]) > 0 || !some && !p.MayRead(m) {
		return Principal{}, false
	}
	return p, true
}

// AnybodyOfAll returns the principal that sent a request, and whether it needs no credential, whatever the request is about: it has
// none, and Anonymous covers every module of all hosts, of which there is one.
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

// Still returns nil while p, the principal of a request that goes on, is identified: its token was neither
// revoked nor has it expired. now is from [time.Now]. Errors are those of Identify.
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

// Package returns the principal that asks for the package of m at path, in its one spelling. It is identified by the
// segment before the path, as [CutSegment] returns it, and without one by the header, unless Anybody may have it. Errors
// are those of Identify, and an [*Outside], with the principal, if it may not read m.
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

// Path returns the path at which p, which may read m, finds the package of m that is at path: a signed one, as clients show
// no credential for packages, unless they need none. now is from [time.Now]. Errors are those of [Signer.Path].
func (a *Authenticator) Path(p Principal, path string, m modproxy.Address, now time.Time) (string, error) {
	if a.Signer == nil || a.Anonymous.Covers(m) {
		return path, nil
	}
	return a.Signer.Path(p, path, now)
}

// credential returns the token in an Authorization header of at most 32 KiB, or "".
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
