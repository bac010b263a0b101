package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/test/registrytest"
)

// runToken makes a token.
func runToken(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: token VARIABLE NAME FLAGS…")
	}
	ts.Check(ts.Exec(built, append([]string{"token", "create"}, args[1:]...)...))
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// issuer is an identity provider.
type issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
	logins
}

func runIssuer(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	switch {
	case len(args) == 1 && args[0] == "start" && w.issuer == nil && !neg:
		var err error
		w.issuer, err = startIssuer()
		ts.Check(err)
		ts.Setenv("ISSUER_URL", w.issuer.URL)
	case len(args) == 1 && args[0] == "down" && w.issuer != nil && !neg:
		w.issuer.Close()
	case len(args) > 1 && args[0] == "sign" && w.issuer != nil && !neg:
		token, err := w.issuer.sign(args[2:])
		ts.Check(err)
		ts.Setenv(args[1], token)
	case len(args) > 1 && args[0] == "gives" && w.issuer != nil && !neg:
		w.issuer.mu.Lock()
		w.issuer.claims = args[1:]
		w.issuer.mu.Unlock()
	default:
		ts.Fatalf("usage: issuer start, issuer sign VARIABLE CLAIM=VALUE…, issuer gives CLAIM=VALUE…|TEXT, issuer down")
	}
}

// startIssuer starts an issuer that publishes one key over https.
func startIssuer() (*issuer, error) {
	cert, certKey, err := registrytest.CA().Issue("127.0.0.1")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, certKey)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	i := &issuer{key: key, logins: logins{codes: map[string]url.Values{}}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "code_challenge_methods_supported": []string{"S256"},
			"authorization_endpoint": i.URL + "/authorize?tenant=one", "token_endpoint": i.URL + "/token",
		})
	})
	mux.HandleFunc("/authorize", i.serveAuthorize)
	mux.HandleFunc("/token", i.serveToken)
	mux.HandleFunc("/job-token", i.serveJobToken)
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "one", Key: key.Public(), Use: "sig"}}})
	})
	i.Server = httptest.NewUnstartedServer(mux)
	i.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	i.StartTLS()
	return i, nil
}

// sign makes a token for modproxy that is valid for an hour. claims are added or replaced; exp=past makes the token expired.
func (i *issuer) sign(claims []string) (string, error) {
	all := map[string]any{"iss": i.URL, "aud": "modproxy", "sub": "job", "exp": time.Now().Add(time.Hour).Unix()}
	for _, claim := range claims {
		name, value, ok := strings.Cut(claim, "=")
		if !ok {
			return "", fmt.Errorf("%q: want CLAIM=VALUE", claim)
		}
		all[name] = value
	}
	if all["exp"] == "past" {
		all["exp"] = time.Now().Add(-time.Hour).Unix()
	}
	payload, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "one"}}, nil)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
