package oidc_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
)

// login returns a verifier of p with the login l, and a channel with the result of each attempt.
func (p *provider) login(t *testing.T, l oidc.Login) (*oidc.Verifier, <-chan error) {
	t.Helper()
	told := make(chan error, 10)
	i := p.issuer()
	i.Login = l
	v, err := oidc.New(oidc.Config{
		Issuers: []oidc.Issuer{{URL: "https://ci.example", Audience: "x"}, i}, Transport: p.Client().Transport,
		Observe: func(_ string, err error) { told <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	return v, told
}

// discovery sets the provider's discovery document, with changes.
func (p *provider) discovery(change map[string]any) {
	document := map[string]any{
		"issuer": p.URL, "jwks_uri": p.URL + "/keys",
		"authorization_endpoint": p.URL + "/authorize?tenant=1", "token_endpoint": p.URL + "/token",
	}
	for name, value := range change {
		document[name] = value
	}
	p.answer("/.well-known/openid-configuration", document)
}

// TestLogin: the login is fetched in the background, together with the keys.
func TestLogin(t *testing.T) {
	p := newProvider(t, published("ec", ecKey))
	p.discovery(map[string]any{"code_challenge_methods_supported": []string{"plain", "S256"}})
	v, told := p.login(t, oidc.Login{
		Client: "cli", Scopes: []string{"openid", "api://modproxy/read"}, Parameters: []string{"audience=https://m.example/?a=b", "prompt="},
	})
	now := time.Now()
	if got := v.Login(now); got != nil {
		t.Fatalf("known before it was asked for: %+v", got)
	}
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	want := `{"client":"cli","grant_types":["authz_code"],"authz":"` + p.URL + `/authorize?tenant=1\u0026audience=https%3A%2F%2Fm.example%2F%3Fa%3Db\u0026prompt=","token":"` + p.URL +
		`/token","ports":[10000,10010],"scopes":["openid","api://modproxy/read"]}`
	if got := string(must(json.Marshal(v.Login(now)))); got != want {
		t.Error(cmp.Diff(want, got))
	}
	if _, err := v.Verify(t.Context(), sign(t, "ES256", "ec", ecKey, p.claims(now, nil)), now); err != nil || p.asked.Load() != 1 {
		t.Errorf("%v; the keys were asked for %d times", err, p.asked.Load())
	}

	// The login stays while the issuer is unavailable, and follows changes afterwards.
	p.handle("/.well-known/openid-configuration", http.NotFound)
	now = now.Add(2 * time.Hour)
	if v.Login(now) == nil || attempt(v, told, now) == nil || v.Login(now) == nil {
		t.Error("it is no longer known, or the issuer was not asked")
	}
	p.discovery(map[string]any{"authorization_endpoint": p.URL + "/other"})
	now = now.Add(2 * time.Minute)
	if err := attempt(v, told, now); err != nil || v.Login(now).Authorize != p.URL+"/other?audience=https%3A%2F%2Fm.example%2F%3Fa%3Db&prompt=" {
		t.Error(err, v.Login(now))
	}
}

// attempt calls v.Login until an attempt at the time now has ended, and returns what was told of it. One call is not enough: v tells of an
// attempt shortly before the attempt ends, and starts no other one until then.
func attempt(v *oidc.Verifier, told <-chan error, now time.Time) error {
	for {
		v.Login(now)
		select {
		case err := <-told:
			return err
		case <-time.After(time.Millisecond):
		}
	}
}

// TestNoLogin: an issuer that is unavailable or unusable for clients is asked again after a minute. Its tokens are valid
// meanwhile.
func TestNoLogin(t *testing.T) {
	for name, change := range map[string]map[string]any{
		"no authorization_endpoint":      {"authorization_endpoint": nil},
		"no token_endpoint":              {"token_endpoint": nil},
		"authorization_endpoint by http": {"authorization_endpoint": "http://a.example/authorize"},
		"a script":                       {"authorization_endpoint": "javascript:alert(1)"},
		"token_endpoint with a user":     {"token_endpoint": "https://u:p@a.example/token"},
		"token_endpoint too long":        {"token_endpoint": "https://a.example/" + strings.Repeat("a", 2048)},
		"a number for a URL":             {"token_endpoint": 1},
		"PKCE without S256":              {"code_challenge_methods_supported": []string{"plain"}},
	} {
		p := newProvider(t, published("ec", ecKey))
		p.discovery(change)
		v, told := p.login(t, oidc.Login{Client: "cli"})
		now := time.Now()
		if err := attempt(v, told, now); err == nil || !strings.HasPrefix(err.Error(), "login: discovery: ") {
			t.Errorf("%s: told %v", name, err)
		}
		if v.Login(now) != nil {
			t.Errorf("%s: people log in", name)
		}
		if _, err := v.Verify(t.Context(), sign(t, "ES256", "ec", ecKey, p.claims(now, nil)), now); err != nil {
			t.Errorf("%s: a token does not count: %v", name, err)
		}
		p.discovery(nil)
		if v.Login(now.Add(59*time.Second)) != nil || len(told) > 0 {
			t.Errorf("%s: asked again at once", name)
		}
		now = now.Add(time.Minute)
		if err := attempt(v, told, now); err != nil || v.Login(now) == nil {
			t.Errorf("%s: afterwards %v, %v", name, err, v.Login(now))
		}
	}
}

// TestLoginNowhere: without a configured login, Login sends no request.
func TestLoginNowhere(t *testing.T) {
	p := newProvider(t)
	v := p.verifier(t)
	if v.Login(time.Now()) != nil || p.asked.Load() > 0 {
		t.Error("people log in, or the issuer was asked")
	}
}

// TestLoginRefused: where login is configured, clients with an invalid token learn the reason only if the issuer signed the
// token.
func TestLoginRefused(t *testing.T) {
	p := newProvider(t, published("ec", ecKey))
	v, _ := p.login(t, oidc.Login{Client: "cli"})
	now := time.Now()
	usual := (&auth.Refused{}).Error()
	signed := "unauthorized: the token of " + p.URL + " is not good here: "
	for name, c := range map[string]struct {
		alg    string
		change map[string]any
		told   string
	}{
		"another audience": {"ES256", map[string]any{"aud": "00000003-0000"}, signed + `expected audience "modproxy" got ["00000003-0000"]`},
		"expired":          {"ES256", map[string]any{"exp": now.Add(-time.Hour).Unix()}, "unauthorized: the token of " + p.URL + " has expired on 20"},
		"not yet good":     {"ES256", map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}, signed + "it is not yet good"},
		"another issuer":   {"ES256", map[string]any{"iss": "https://other.example"}, usual},
		"another key":      {"RS256", map[string]any{"aud": "00000003-0000"}, usual},
	} {
		key := any(ecKey)
		if c.alg == "RS256" {
			key = rsaKey
		}
		_, err := v.Verify(t.Context(), sign(t, c.alg, "ec", key, p.claims(now, c.change)), now)
		if err == nil || !strings.HasPrefix(err.Error(), c.told) || c.told == usual && err.Error() != usual || why(err) == "" {
			t.Errorf("%s: %v (%s)", name, err, why(err))
		}
	}
}
