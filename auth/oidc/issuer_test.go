package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
)

var (
	rsaKey = must(rsa.GenerateKey(rand.Reader, 2048))
	ecKey  = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	infra  = auth.Scope{Host: "corp", Namespace: "infra"}
	public = auth.Scope{Host: "registry.terraform.io", Namespace: "*"}
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// provider is an identity provider on the loopback interface.
type provider struct {
	*httptest.Server
	asked atomic.Int32 // requests for its keys
	mu    sync.Mutex
	serve map[string]func(http.ResponseWriter, *http.Request) // by path
}

func newProvider(t testing.TB, keys ...jose.JSONWebKey) *provider {
	t.Helper()
	p := &provider{serve: map[string]func(http.ResponseWriter, *http.Request){}}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			p.asked.Add(1)
		}
		p.mu.Lock()
		serve := p.serve[r.URL.Path]
		p.mu.Unlock()
		if serve == nil || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		serve(w, r)
	}))
	t.Cleanup(p.Close)
	p.answer("/.well-known/openid-configuration", map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys"})
	p.publish(keys...)
	return p
}

func (p *provider) handle(path string, serve func(http.ResponseWriter, *http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve[path] = serve
}

func (p *provider) answer(path string, v any) {
	body := must(json.Marshal(v))
	p.handle(path, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
}

func (p *provider) publish(keys ...jose.JSONWebKey) {
	p.answer("/keys", jose.JSONWebKeySet{Keys: keys})
}

func published(kid string, key crypto.Signer) jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: kid, Key: key.Public(), Use: "sig"}
}

// issuer returns the configuration of the provider.
func (p *provider) issuer() oidc.Issuer {
	return oidc.Issuer{
		URL: p.URL, Audience: "modproxy", GroupsClaim: "groups",
		Groups: []oidc.Group{
			{Name: "infra", Match: []string{"repository=acme/infra"}, Scopes: []auth.Scope{infra}},
			{Name: "staff", Values: []string{"staff", "guests"}, Scopes: []auth.Scope{public}},
			{Name: "root", Values: []string{"ops"}, Match: []string{"mfa=true", "level=3"}, Admin: true, Refresh: true},
		},
	}
}

func (p *provider) verifier(t testing.TB, issuers ...oidc.Issuer) *oidc.Verifier {
	t.Helper()
	v, err := oidc.New(oidc.Config{Issuers: append(issuers, p.issuer()), Transport: p.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// claims returns the claims of a token that is valid at now, with changes.
func (p *provider) claims(now time.Time, change map[string]any) map[string]any {
	c := map[string]any{
		"iss": p.URL, "aud": "modproxy", "sub": "repo:acme/infra", "repository": "acme/infra",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func sign(t testing.TB, alg, kid string, key any, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(must(json.Marshal(claims)))
	if err != nil {
		t.Fatal(err)
	}
	return must(signed.CompactSerialize())
}

// raw returns a token with an unchecked header and signature.
func raw(header, claims any, signature []byte) string {
	part := base64.RawURLEncoding.EncodeToString
	return part(must(json.Marshal(header))) + "." + part(must(json.Marshal(claims))) + "." + part(signature)
}

func why(err error) string {
	var refused *auth.Refused
	if errors.As(err, &refused) {
		return refused.Why
	}
	return ""
}

func module(host, namespace string) modproxy.Address {
	return modproxy.Address{Host: host, Namespace: namespace, Name: "vpc", System: "aws"}
}
