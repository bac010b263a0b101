package auth

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// maxCredential bounds the Authorization header, in bytes.
const maxCredential = 32 << 10

// Challenge is for the WWW-Authenticate header that an answer with status 401 has.
const Challenge = `Bearer realm="modproxy"`

// Verifier says whom a credential names.
type Verifier interface {
	// Verify's error is a [*Refused], or [modproxy.ErrUnavailable] when it
	// cannot be known whom text names. now is from [time.Now].
	Verify(ctx context.Context, text string, now time.Time) (Principal, error)
}

// Authenticator says who sent a request. It is safe for concurrent use; its
// fields are not changed after the first.
type Authenticator struct {
	Tokens *Tokens  // nil: there are none
	JWT    Verifier // of JSON Web Tokens; nil: none is good
	Signer *Signer  // nil: no signed path is good
	Anyone *Grant   // what may be done without a credential; nil: nothing
}

// Identify says who sent a request with the given header. The credential is a
// token, either as a bearer token, which is how a client shows what it has for the
// registry's host, or as the password of basic authentication with any user name,
// which is how it shows what .netrc has. now is from [time.Now].
//
// A credential that is not good is refused even where none is wanted. The error
// is a [*Refused], or [modproxy.ErrUnavailable] when it cannot be known who asks.
func (a *Authenticator) Identify(ctx context.Context, header http.Header, now time.Time) (Principal, error) {
	values := header["Authorization"]
	switch {
	case len(values) == 0 && a.Anyone != nil:
		return Principal{Kind: Anonymous, Grant: *a.Anyone}, nil
	case len(values) == 0:
		return Principal{}, &Refused{noCredential}
	case len(values) > 1:
		return Principal{}, &Refused{"more than one credential"}
	}
	text, ok := credential(values[0])
	switch {
	case !ok:
		return Principal{}, &Refused{"neither a bearer token nor basic authentication"}
	case looksLikeToken(text) && a.Tokens != nil:
		return a.Tokens.Verify(text, now)
	case strings.Count(text, ".") == 2 && a.JWT != nil:
		return a.JWT.Verify(ctx, text, now)
	}
	return Principal{}, &Refused{"not a credential that this proxy knows"}
}

// Still is nil while p, whom a request that goes on was identified as, is as good as
// then: the token was neither revoked nor has it expired. now is from [time.Now].
// Errors are those of Identify.
func (a *Authenticator) Still(p Principal, now time.Time) error {
	switch {
	case p.Kind == ByToken && a.Tokens != nil:
		_, err := a.Tokens.byID(p.ID, now)
		return err
	case p.Kind == ByIssuer && !p.Until.IsZero() && !now.Before(p.Until.Add(maxSkew)):
		return &Refused{p.String() + " has expired"}
	}
	return nil
}

// Package says who asks for the package of m at path, in its one spelling: by the
// segment that was before the path, as [CutSegment] has it, and without one by the
// header.
//
// Errors: those of Identify, and [modproxy.ErrNotFound] if the principal, which is
// then known all the same, may not read m.
func (a *Authenticator) Package(ctx context.Context, header http.Header, segment, path string, m modproxy.Module, now time.Time) (Principal, error) {
	if segment != "" {
		if a.Signer == nil {
			return Principal{}, &Refused{"no path is signed here"}
		}
		return a.Signer.Redeem(segment, path, m, now)
	}
	p, err := a.Identify(ctx, header, now)
	if err == nil && !p.MayRead(m) {
		err = modproxy.ErrNotFound
	}
	return p, err
}

// credential is the token in an Authorization header.
func credential(value string) (token string, ok bool) {
	if len(value) > maxCredential {
		return "", false
	}
	scheme, rest, _ := strings.Cut(value, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return rest, rest != ""
	case strings.EqualFold(scheme, "Basic"):
		pair, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return "", false
		}
		_, password, _ := strings.Cut(string(pair), ":")
		return password, password != ""
	}
	return "", false
}
