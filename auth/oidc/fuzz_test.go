package oidc_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/modproxy/modproxy/auth/oidc"
)

// What an issuer publishes is an error, or a few public keys.
func FuzzDocuments(f *testing.F) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{published("a", rsaKey), published("b", ecKey)}}
	f.Add(must(json.Marshal(set)))
	f.Add(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("x")}, {Key: ecKey}}})))
	f.Add([]byte(`{"issuer":"https://a.example","jwks_uri":"https://a.example/keys"}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"","y":""},{"kty":"RSA","n":"AA","e":"AA"},null,1]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		if n, err := oidc.ParseKeys(document); (err == nil) != (0 < n && n <= 50) {
			t.Fatal(n, err)
		}
		if where, err := oidc.ParseDiscovery(document, "https://a.example"); err == nil && !strings.HasPrefix(strings.ToLower(where), "https://") {
			t.Fatal(where)
		}
	})
}
