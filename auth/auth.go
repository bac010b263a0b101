// Package auth knows who asks, and what they may read.
//
// Invariant: nobody is anybody but by showing, unaltered and in time, what was
// given to them: a token, or a signed package path. What an id or a name looks
// like gives no right. What cannot be checked, because a file is damaged or gone,
// is refused. What somebody may not read is to them as if it were not there.
//
// A change of the token file or of the key file counts in every process that
// has it open within a second while requests come in, and never later than five; a
// new token counts at once.
//
// Two things are secret and appear in no error and no log: the text of a token,
// of which only a hash is kept, and the segment of a signed package path.
package auth

import (
	"context"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// Kind is how somebody is known.
type Kind uint8

const (
	Nobody    Kind = iota // not known; may do nothing
	Anonymous             // showed nothing, where that is allowed
	ByToken               // showed a token of [Tokens]
	ByIssuer              // showed a token that an identity provider signed
)

func (k Kind) String() string {
	switch k {
	case Anonymous:
		return "anonymous"
	case ByToken:
		return "token"
	case ByIssuer:
		return "issuer"
	}
	return "nobody"
}

// Grant is what somebody may do. The zero Grant is nothing.
type Grant struct {
	Scopes []Scope // whose modules may be read
	Admin  bool    // may operate the proxy; it does not make anything readable
}

// MayRead reports whether one of the scopes covers m.
func (g Grant) MayRead(m modproxy.Module) bool {
	for _, s := range g.Scopes {
		if s.Covers(m) {
			return true
		}
	}
	return false
}

// MayReadOf reports whether one of the scopes covers modules of a namespace of host,
// or of any namespace when that is empty.
func (g Grant) MayReadOf(host, namespace string) bool {
	return slices.ContainsFunc(g.Scopes, func(s Scope) bool {
		return covers(s.Host, host) && (namespace == "" || covers(s.Namespace, namespace))
	})
}

// MayReadAll reports whether one of the scopes covers every module.
func (g Grant) MayReadAll() bool { return slices.Contains(g.Scopes, Everything) }

// Principal is who asks. The zero Principal is nobody. Its slices are shared:
// they are not changed.
type Principal struct {
	Kind   Kind
	ID     string    // unique within Kind; not secret
	Name   string    // for people and logs; need not be unique
	Groups []string  // the groups that the grant comes from, ByIssuer only
	Until  time.Time // when what was shown expires; zero for never
	Grant
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

// Refused is the error for everybody who is not known. Its text, which they are
// shown, is always the same, but for whether they have shown a credential; Why is for
// the log, and has nothing secret.
//
// It is [modproxy.ErrUnauthorized].
type Refused struct{ Why string }

func (r *Refused) Error() string {
	if r.Why == noCredential {
		return "unauthorized: no token was shown"
	}
	return "unauthorized: the token is not known, has expired or was revoked"
}

// noCredential is why somebody is refused who has shown none.
const noCredential = "no credential"

func (*Refused) Unwrap() error { return modproxy.ErrUnauthorized }

type contextKey struct{}

// WithPrincipal is a context of a request from p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, &p)
}

// PrincipalOf is who sent the request that ctx is of: the zero Principal if
// nobody said so.
func PrincipalOf(ctx context.Context) Principal {
	if p, ok := ctx.Value(contextKey{}).(*Principal); ok {
		return *p
	}
	return Principal{}
}
