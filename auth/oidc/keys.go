package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/flight"
)

const (
	maxAge     = time.Hour - remember // older keys are not used: one may have been withdrawn
	refreshAge = 30 * time.Minute     // older keys are fetched again
	retryStale = time.Minute          // between attempts to refresh old keys
	retryKey   = 10 * time.Second     // between attempts to find an unknown key
	fetchTime  = 10 * time.Second     // timeout of one attempt
	maxKeys    = 50

	// MaxDocument is the maximum size of a discovery document or of a set of keys, in bytes. Longer documents are refused.
	MaxDocument = 1 << 20
)

var (
	errKeys  = errors.New("the issuer's keys cannot be fetched")
	errNoKey = errors.New("the issuer has no key that it can be signed with")
)

// issuer is an Issuer with the keys and endpoints that it publishes.
type issuer struct {
	Issuer
	transport http.RoundTripper
	observe   func(issuer string, err error)

	mu     sync.Mutex
	keys   []jose.JSONWebKey // replaced as a whole; empty if the issuer publishes no signing keys
	login  *auth.Login       // nil: unknown; immutable
	got    time.Time         // when keys and login were fetched
	tried  time.Time         // when the last attempt began
	failed bool              // whether the last attempt failed

	attempts flight.Group[struct{}, struct{}] // to fetch keys and login
}

// attempt is the verification of one token with an issuer's keys at a time.
type attempt struct {
	issuer *issuer
	now    time.Time
	err    error // of VerifySignature
	signed bool  // one of the keys signed the token
}

// VerifySignature returns the payload of a token that one of the keys signed. The verifier has checked that its algorithm is
// allowed.
func (a *attempt) VerifySignature(ctx context.Context, text string) (payload []byte, err error) {
	defer func() { a.err, a.signed = err, err == nil }()
	jws, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return nil, err
	}
	for missing := false; ; missing = true { // the issuer may have a new key (openid-connect-core-1_0, section 10.1.1)
		keys, failed, err := a.issuer.get(ctx, a.now, missing)
		if err != nil {
			return nil, err
		}
		payload, err := signedBy(keys, jws)
		if missing && failed && errors.Is(err, errNoKey) {
			return nil, errKeys
		}
		if missing || !errors.Is(err, errNoKey) {
			return payload, err
		}
	}
}

// signedBy returns the payload that one of keys signed. If no key matches the token's header, the error is errNoKey.
func signedBy(keys []jose.JSONWebKey, jws *jose.JSONWebSignature) ([]byte, error) {
	header := jws.Signatures[0].Header
	err := errNoKey
	for _, key := range keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		payload, bad := jws.Verify(key.Key)
		if bad == nil {
			return payload, nil
		}
		if header.KeyID != "" {
			err = fmt.Errorf("signature: %w", bad)
		}
	}
	return nil, err
}

// get returns the current keys, and whether the last attempt to fetch them failed. If the keys are old, or missing says that a
// token names an unknown key, get starts an attempt. It waits for the attempt if missing is true or the keys have expired.
func (i *issuer) get(ctx context.Context, now time.Time, missing bool) (_ []jose.JSONWebKey, failed bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	expired := func() bool { return now.Sub(i.got) > maxAge }
	wanted, pause := missing || now.Sub(i.got) > refreshAge, retryStale
	if missing {
		pause = retryKey
	}
	var call *flight.Call[struct{}]
	if wanted {
		call, err = i.start(now, pause)
	}
	if call != nil && (missing || expired()) {
		i.mu.Unlock()
		_, err = call.Wait(ctx)
		i.mu.Lock()
	}
	if expired() {
		return nil, i.failed, err
	}
	return i.keys, i.failed, err
}

// start returns the running attempt to fetch keys and login. If no attempt is running, it starts one, unless the last began less
// than pause ago; then it returns nil. The caller holds i.mu.
func (i *issuer) start(now time.Time, pause time.Duration) (*flight.Call[struct{}], error) {
	if call := i.attempts.Running()[struct{}{}]; call != nil || now.Sub(i.tried) < pause {
		return call, nil
	}
	i.tried = now
	// The context has no values of the request, because other requests may wait for the attempt.
	return i.attempts.Join(context.Background(), struct{}{}, func(ctx context.Context) (struct{}, error) {
		i.fetch(ctx, now)
		return struct{}{}, nil
	})
}

// fetch is one attempt.
func (i *issuer) fetch(ctx context.Context, now time.Time) {
	keys, login, err := i.ask(ctx)
	i.mu.Lock()
	if i.failed = keys == nil; !i.failed {
		i.keys, i.login, i.got = keys, login, now
	}
	i.mu.Unlock()
	if i.observe != nil {
		i.observe(i.URL, err)
	}
}

// ask fetches the discovery document and then the keys. Without keys, err says why. With keys, which are then not nil but may
// be empty, an error says why no token is valid or why people cannot log in. A panic while reading the answers becomes an
// error.
func (i *issuer) ask(ctx context.Context) (keys []jose.JSONWebKey, login *auth.Login, err error) {
	defer func() {
		if p := recover(); p != nil {
			keys, err = nil, modproxy.Fault(p)
		}
	}()
	where := ""
	document, err := i.document(ctx, strings.TrimSuffix(i.URL, "/")+"/.well-known/openid-configuration")
	if err == nil {
		where, err = parseDiscovery(document, i.URL)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("discovery: %w", err)
	}
	login, noLogin := i.Login.at(document)
	if document, err = i.document(ctx, where); err == nil {
		keys, err = parseKeys(document)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	switch {
	case len(keys) == 0:
		err = errors.New("keys: the issuer publishes none that signs: no token of it is valid")
	case noLogin != nil:
		err = fmt.Errorf("login: discovery: %w", noLogin)
	}
	return keys, login, err
}

// document returns a document of the issuer. It follows no redirects.
func (i *issuer) document(ctx context.Context, where string) (document []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	answer, err := i.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	shown := (&url.URL{Scheme: request.URL.Scheme, Host: request.URL.Host, Path: request.URL.Path}).String() // without the query
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: answered with status %d", shown, answer.StatusCode)
	}
	document, err = io.ReadAll(io.LimitReader(answer.Body, MaxDocument+1))
	if err == nil && len(document) > MaxDocument {
		err = fmt.Errorf("%s: longer than %d bytes", shown, MaxDocument)
	}
	return document, err
}

// parseDiscovery returns the URL of the keys in a discovery document, which must be that of issuer.
func parseDiscovery(document []byte, issuer string) (string, error) {
	var d struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(document, &d); {
	case err != nil:
		return "", err
	case d.Issuer != issuer:
		return "", fmt.Errorf("the document is of another issuer, %.200q", d.Issuer)
	}
	if err := checkURL(d.Keys); err != nil {
		return "", fmt.Errorf("jwks_uri %.200q: %w", d.Keys, err)
	}
	return d.Keys, nil
}

// parseKeys returns the signing keys of a JSON Web Key Set and ignores other keys (RFC 7517, section 5). Without an error, the
// result is not nil.
func parseKeys(document []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, err
	}
	if set.Keys == nil {
		return nil, errors.New("the document has no keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys, more than the %d that are allowed", len(set.Keys), maxKeys)
	}
	keys := []jose.JSONWebKey{}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err == nil && signs(&key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// signs reports whether a key is a public signing key of a supported type and size.
func signs(key *jose.JSONWebKey) bool {
	good := (key.Use == "" || key.Use == "sig") && key.Valid()
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return good && 2048 <= public.N.BitLen() && public.N.BitLen() <= 8192
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return good
	}
	return false
}
