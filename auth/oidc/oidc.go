// Package oidc identifies people and jobs by the JSON Web Tokens that their identity provider or CI system
// signed for them.
//
// Invariant: a token counts only if one of the configured issuers signed it, with a public key of its own that
// it publishes now and an algorithm that was allowed beforehand, for this proxy as its audience, and while it
// lasts. What it counts for is written in this proxy's configuration: a claim gives no right by itself.
//
// The issuer is asked for its keys once an hour, and when a token names a key that is not known, at most every
// ten seconds. While it cannot be asked, the keys that are known go on counting. Where people log in at it, it is asked for
// with the keys, and before there is a token.
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
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/clean"
)

const (
	maxToken = 16 << 10    // bytes
	skew     = time.Minute // between the issuer's clock and ours
	remember = time.Minute // for how long a token that was good is
	maxKnown = 8192        // tokens that are remembered
)

// Config is how a [Verifier] is set up.
type Config struct {
	Issuers []Issuer
	// Transport asks issuers for their keys: by GET, over https, and no redirect is followed. Not nil.
	Transport http.RoundTripper
	// Observe, if not nil, is told of an attempt to fetch the keys of an issuer, and why it failed or nobody can log in
	// there, or nil.
	Observe func(issuer string, err error)
}

// Verifier identifies clients by their tokens. It is safe for concurrent use.
type Verifier struct {
	issuers map[string]*issuer
	login   *issuer // where people log in; may be nil
	rules   string
	clock   auth.Clock
	known   *lru.Cache[[sha256.Size]byte, good] // tokens that were good, by their hash
}

// good is what a token was good for.
type good struct {
	principal auth.Principal
	at        time.Time // with a monotonic reading
}

// New makes a Verifier. No issuer is asked before there is a token of it, or Login is asked. The error is [modproxy.ErrInvalid].
func New(cfg Config) (*Verifier, error) {
	known, _ := lru.New[[sha256.Size]byte, good](maxKnown) // fails for no size but 0
	rules, err := json.Marshal(cfg.Issuers)
	if err != nil {
		return nil, err
	}
	v := &Verifier{issuers: map[string]*issuer{}, rules: auth.IDOf(string(rules)), clock: auth.NewClock(), known: known}
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
		if i.Login.IsSet() {
			v.login = v.issuers[i.URL]
		}
	}
	return v, nil
}

// Rules stands for all that the issuers' tokens may do: it changes with the configuration.
func (v *Verifier) Rules() string { return v.rules }

// Verify returns the principal that has the token text. One that was good is not looked at again for a minute, or until
// it expires. Errors: an [*auth.Refused], and [modproxy.ErrUnavailable] when the issuer's keys cannot be
// had. ctx ends the wait for them, not the fetch, which others may wait for.
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
		case keys.signed && i.Login.IsSet(): // everybody is told of the issuer, and has this token from it
			refused.Told = fmt.Sprintf("the token of %s is not good here: %.300s", i.URL, strings.TrimPrefix(err.Error(), "oidc: "))
		}
		return auth.Principal{}, refused
	}
	v.known.Add(hash, good{p, now})
	return p, nil
}

// verify checks all that makes a token good, by keys, at latest: now in spite of a wall clock that was turned back.
func (i *issuer) verify(ctx context.Context, text string, keys *attempt, latest time.Time) (auth.Principal, error) {
	verifier := gooidc.NewVerifier(i.URL, keys, &gooidc.Config{
		ClientID: i.Audience, SupportedSigningAlgs: i.Algorithms,
		Now: func() time.Time { return latest.Add(-skew) },
	})
	token, err := verifier.Verify(ctx, text)
	switch {
	case keys.err != nil:
		return auth.Principal{}, keys.err // the verifier's has it as text
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

// opens reports whether a token that the issuer has signed would open something if it were good: whoever has it is no stranger.
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

// issuerOf returns the issuer that a token names, unverified. A token has one spelling: base64 without a bit to spare.
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

// shown returns a subject for people and logs.
func shown(subject string) string {
	if len(subject) > 200 {
		subject = strings.ToValidUTF8(subject[:200], "") + "…"
	}
	return clean.Text(subject)
}
