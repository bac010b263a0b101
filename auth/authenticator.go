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

// Challenge is for the WWW-Authenticate header of an answer with status 401.
const Challenge = `Bearer realm="modproxy"`

// Verifier identifies clients by JSON Web Tokens.
type Verifier interface {
	// Verify returns the principal that text, a token, is for. Its error is a [*Refused], or
	// [modproxy.ErrUnavailable] when the principal cannot be known. now is from [time.Now].
	Verify(ctx context.Context, text string, now time.Time) (Principal, error)
}

// Authenticator identifies the clients of requests. It is safe for concurrent use; its fields are not changed
// after the first.
type Authenticator struct {
	Tokens *Tokens  // nil: no token is good
	JWT    Verifier // nil: no JSON Web Token is good
	Signer *Signer  // nil: no signed path is good
}

// Identify returns the principal that sent a request with the given header. The credential is a token, either
// as a bearer token, which is how clients show what they have for the registry's host, or as the password of
// basic authentication with any user name, which is how they show what .netrc has. now is from [time.Now].
//
// The error is a [*Refused], or [modproxy.ErrUnavailable] when the principal cannot be known.
func (a *Authenticator) Identify(ctx context.Context, header http.Header, now time.Time) (Principal, error) {
	values, text := header["Authorization"], ""
	if len(values) > 0 {
		text = credential(values[0])
	}
	switch {
	case len(values) == 0:
		return Principal{}, &Refused{noCredential}
	case len(values) > 1:
		return Principal{}, &Refused{"more than one credential"}
	case text == "":
		return Principal{}, &Refused{"neither a bearer token nor basic authentication"}
	case strings.HasPrefix(text, tokenPrefix) && a.Tokens != nil:
		return a.Tokens.Verify(text, now)
	case strings.Count(text, ".") == 2 && a.JWT != nil:
		return a.JWT.Verify(ctx, text, now)
	}
	return Principal{}, &Refused{"not a credential that this proxy knows"}
}

// Still returns nil while p, the principal of a request that goes on, is identified: its token was neither
// revoked nor has it expired. now is from [time.Now]. Errors are those of Identify.
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

// Package returns the principal that asks for the package of m at path, in its one spelling. It is identified
// by the segment that was before the path, as [CutSegment] returns it, and without one by the header.
//
// Errors: those of Identify, and [modproxy.ErrNotFound], with the principal, if it may not read m.
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

// credential returns the token in an Authorization header, or "".
func credential(value string) string {
	if len(value) > maxCredential {
		return ""
	}
	scheme, rest, _ := strings.Cut(value, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return rest
	case strings.EqualFold(scheme, "Basic"):
		pair, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return ""
		}
		_, password, _ := strings.Cut(string(pair), ":")
		return password
	}
	return ""
}
