package oidc_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/modproxy/modproxy/auth/oidc"
)

// FuzzDocuments: any document of an issuer results in an error, or in at most a few public keys.
func FuzzDocuments(f *testing.F) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{published("a", rsaKey), published("b", ecKey)}}
	f.Add(must(json.Marshal(set)))
	f.Add(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("x")}, {Key: ecKey}}})))
	f.Add([]byte(`{"issuer":"https://a.example","jwks_uri":"https://a.example/keys"}`))
	f.Add([]byte(`{"authorization_endpoint":"https://a.example/authorize?p=x","token_endpoint":"https://a.example/token","code_challenge_methods_supported":["S256"]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"","y":""},{"kty":"RSA","n":"AA","e":"AA"},null,1]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		if n, err := oidc.ParseKeys(document); err != nil && n > 0 || n > 50 {
			t.Fatal(n, err)
		}
		if where, err := oidc.ParseDiscovery(document, "https://a.example"); err == nil && !strings.HasPrefix(strings.ToLower(where), "https://") {
			t.Fatal(where)
		}
		login, err := oidc.LoginAt(oidc.Login{Client: "a"}, document)
		if (err == nil) != (login != nil) {
			t.Fatal(login, err)
		}
		if err == nil && !(strings.HasPrefix(strings.ToLower(login.Authorize), "https://") && strings.HasPrefix(strings.ToLower(login.Token), "https://")) {
			t.Fatal(login)
		}
	})
}
