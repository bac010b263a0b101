// Package oidc identifies people and jobs by JSON Web Tokens of identity providers and CI systems.
//
//	v, err := oidc.New(oidc.Config{Issuers: issuers, Transport: transport})
//	a := &auth.Authenticator{JWT: v}
//
// Invariants:
//
//   - A token is valid only if a configured issuer signed it with one of its keys, with a configured algorithm, for this proxy as
//     its audience, and only until it expires.
//   - The rights of a token come from this proxy's configuration: a claim grants no right by itself.
//   - A key counts for at most an hour after the issuer last published it. Keys that are older than 30 minutes are fetched again
//     when a token is verified. If a token names an unknown key, the keys are fetched again at most every ten seconds. Verified
//     tokens are remembered for a minute; the hour includes this minute.
//   - The issuer's clock may differ from that of this host by a minute: the times exp and nbf of a token count with this margin.
//     The time iat is not checked.
//
// The login endpoints are fetched together with the keys. [Verifier.Login] starts this request without a token, so that service
// discovery has the endpoints before the first token exists. [Issuer], [Group] and [Login] specify the configuration.
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/memory"
)

const (
	maxToken = 16 << 10    // bytes
	skew     = time.Minute // between the issuer's clock and ours
	remember = time.Minute // how long a verified token is cached
	maxKnown = 8192        // cached tokens
)

// Config configures a [Verifier].
type Config struct {
	Issuers []Issuer
	// Transport sends requests to issuers: GET over https, without following redirects. It must not be nil.
	Transport http.RoundTripper
	// Observe, if not nil, is called after each attempt to fetch the keys of an issuer. err says why it failed, or why people
	// cannot log in there; else it is nil.
	Observe func(issuer string, err error)
}

// Verifier identifies clients by their tokens. It is safe for concurrent use.
type Verifier struct {
	issuers map[string]*issuer
	login   *issuer // the issuer with a login; may be nil
	rules   string
	clock   auth.Clock
	known   memory.Cache[[sha256.Size]byte, good] // verified tokens, by their hash
}

// good is the result of a successful verification.
type good struct {
	principal auth.Principal
	at        time.Time // of the verification; with a monotonic reading
}

// New returns a Verifier. It sends no requests; the first call of Verify or Login does. Two issuers with the same URL, or two with a
// login, are an error. The error is [modproxy.ErrInvalid].
func New(cfg Config) (*Verifier, error) {
	rules, err := json.Marshal(cfg.Issuers)
	if err != nil {
		return nil, err
	}
	v := &Verifier{issuers: map[string]*issuer{}, rules: auth.IDOf(string(rules)), clock: auth.NewClock()}
	v.known.Max = maxKnown
	for _, i := range cfg.Issuers {
		if err := i.Check(); err != nil {
			return nil, err
		}
		if v.issuers[i.URL] != nil {
			return nil, fmt.Errorf("%w: issuer %q: there are two", modproxy.ErrInvalid, i.URL)
		}
		if len(i.Algorithms) == 0 {
			i.Algorithms = []string{"RS256", "ES256"}
		}
		v.issuers[i.URL] = &issuer{Issuer: i, transport: cfg.Transport, observe: cfg.Observe}
		switch {
		case i.Login.IsSet() && v.login != nil:
			return nil, fmt.Errorf("%w: issuer %q: %s has a login already, and clients use only one", modproxy.ErrInvalid, i.URL, v.login.URL)
		case i.Login.IsSet():
			v.login = v.issuers[i.URL]
		}
	}
	return v, nil
}

// Rules returns a hash of the issuers' configuration. It changes when the rights of their tokens may have changed. The Login of an
// issuer is not part of it.
func (v *Verifier) Rules() string { return v.rules }

// Verify returns the principal of the token text. A valid token is remembered for a minute, at most until it expires. The error is
// an [*auth.Refused], or [modproxy.ErrUnavailable] if the issuer's keys are not available. ctx limits the wait for the keys,
// but does not cancel the request to the issuer, because other calls may wait for it.
func (v *Verifier) Verify(ctx context.Context, text string, now time.Time) (auth.Principal, error) {
	latest, hash := v.clock.Latest(now), sha256.Sum256([]byte(text))
	if g, ok := v.known.Get(hash); ok && now.Sub(g.at).Abs() < remember && latest.Before(g.principal.Until) {
		return g.principal, nil
	}
	name, err := issuerOf(text)
	if err != nil {
		return auth.Principal{}, &auth.Refused{Why: "JWT: " + err.Error()}
	}
	i := v.issuers[name]
	if i == nil {
		return auth.Principal{}, &auth.Refused{Why: fmt.Sprintf("JWT: no such issuer is configured: %.100q", name)}
	}
	keys := &attempt{issuer: i, now: now}
	p, err := i.verify(ctx, text, keys, latest)
	switch {
	case errors.Is(err, errKeys) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return auth.Principal{}, fmt.Errorf("%w: the token cannot be checked now: %w", modproxy.ErrUnavailable, err)
	case err != nil:
		refused := &auth.Refused{Why: fmt.Sprintf("JWT of %s: %.300s", i.URL, err)}
		expired, isExpired := errors.AsType[*gooidc.TokenExpiredError](err)
		switch {
		case isExpired && !expired.Expiry.IsZero() && keys.signed && i.opens(text):
			refused.Told = fmt.Sprintf("the token of %s has expired on %s", i.URL, expired.Expiry.UTC().Format("2006-01-02 15:04 UTC"))
		case keys.signed && i.Login.IsSet(): // with login, the issuer's name is public, and the client has its token
			refused.Told = fmt.Sprintf("the token of %s is not good here: %.300s", i.URL, strings.TrimPrefix(err.Error(), "oidc: "))
		}
		return auth.Principal{}, refused
	}
	v.known.Add(hash, good{p, now}, memory.Forever, 0) // now decides how long it counts
	return p, nil
}

// verify checks a token with keys. latest is the current time, which does not go back with the wall clock.
func (i *issuer) verify(ctx context.Context, text string, keys *attempt, latest time.Time) (auth.Principal, error) {
	verifier := gooidc.NewVerifier(i.URL, keys, &gooidc.Config{
		ClientID: i.Audience, SupportedSigningAlgs: i.Algorithms,
		Now: func() time.Time { return latest.Add(-skew) },
	})
	token, err := verifier.Verify(ctx, text)
	switch {
	case keys.err != nil:
		return auth.Principal{}, keys.err // the verifier's error contains it as text only
	case err != nil:
		return auth.Principal{}, err
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return auth.Principal{}, err
	}
	if err := c.check(latest); err != nil {
		return auth.Principal{}, err
	}
	groups, grant := i.grant(c)
	return auth.Principal{
		Kind: auth.ByIssuer, ID: auth.IDOf(i.URL, token.Subject), Name: shown(token.Subject),
		Groups: groups, Until: token.Expiry, Grant: grant,
	}, nil
}

// opens reports whether a token, whose signature was verified, would grant any right if it were valid: then its owner is not a
// stranger.
func (i *issuer) opens(text string) bool {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1])
	if err != nil {
		return false
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil {
		return false
	}
	groups, grant := i.grant(c)
	return len(groups) > 0 || len(grant.Scopes) > 0 || grant.Admin
}

// issuerOf returns the issuer that a token names, unverified. It accepts only canonical base64, so that a token has one
// spelling.
func issuerOf(text string) (string, error) {
	if len(text) > maxToken {
		return "", errors.New("too long")
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 || strings.ContainsAny(text, "\r\n") {
		return "", errors.New("want three parts between dots")
	}
	var raw [3][]byte
	for n, part := range parts {
		var err error
		if raw[n], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || part == "" {
			return "", errors.New("want base64 for a URL, without padding")
		}
	}
	var named struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(raw[1], &named); err != nil {
		return "", errors.New("want claims that are a JSON object with an issuer")
	}
	return named.Issuer, nil
}

// shown returns a subject in a form that is safe for people and logs.
func shown(subject string) string {
	if len(subject) > 200 {
		subject = strings.ToValidUTF8(subject[:200], "") + "…"
	}
	return clean.Text(subject)
}
