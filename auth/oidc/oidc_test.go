package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
)

func TestVerify(t *testing.T) {
	p := newProvider(t, published("rsa", rsaKey), published("ec", ecKey))
	v := p.verifier(t)
	now := time.Now()
	for name, c := range map[string]struct {
		token  string
		groups []string
		infra  bool
		public bool
		admin  bool
	}{
		"RS256":           {sign(t, "RS256", "rsa", rsaKey, p.claims(now, nil)), []string{"infra"}, true, false, false},
		"ES256":           {sign(t, "ES256", "ec", ecKey, p.claims(now, nil)), []string{"infra"}, true, false, false},
		"no key id":       {sign(t, "ES256", "", ecKey, p.claims(now, nil)), []string{"infra"}, true, false, false},
		"many audiences":  {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"aud": []string{"x", "modproxy"}})), []string{"infra"}, true, false, false},
		"no group":        {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"repository": "acme/infra2"})), nil, false, false, false},
		"claim of a list": {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"repository": []string{"acme/infra"}})), nil, false, false, false},
		"claim's prefix":  {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"repository": "acme/infra/x"})), nil, false, false, false},
		"group":           {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"groups": "guests"})), []string{"infra", "staff"}, true, true, false},
		"groups":          {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"groups": []any{"a", 1, "staff"}, "repository": nil})), []string{"staff"}, false, true, false},
		"group's prefix":  {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"groups": []string{"staff2", "Staff", "infra", "root", "admin"}, "repository": nil})), nil, false, false, false},
		"all of a group":  {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"groups": "ops", "mfa": true, "level": 3})), []string{"infra", "root"}, true, false, true},
		"half of a group": {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"groups": "ops", "mfa": true, "level": 33})), []string{"infra"}, true, false, false},
		"a subject in it": {sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"sub": "admin", "repository": nil})), nil, false, false, false},
	} {
		for _, how := range []string{"", ", again"} {
			got, err := v.Verify(t.Context(), c.token, now)
			if err != nil {
				t.Errorf("%s%s: %v (%s)", name, how, err, why(err))
				continue
			}
			if got.Kind != auth.ByIssuer || len(got.ID) != 16 || !slices.Equal(got.Groups, c.groups) || got.Admin != c.admin || got.Refresh != c.admin ||
				got.MayRead(module("corp", "infra")) != c.infra || got.MayRead(module("registry.terraform.io", "x")) != c.public {
				t.Errorf("%s%s: %+v", name, how, got)
			}
		}
	}
	if p.asked.Load() != 1 {
		t.Errorf("the keys were asked for %d times", p.asked.Load())
	}
}

func TestVerifyRefuses(t *testing.T) {
	p := newProvider(t, published("rsa", rsaKey), published("ec", ecKey))
	v := p.verifier(t)
	now := time.Now()
	stranger := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	with := func(name string, value any) map[string]any { return p.claims(now, map[string]any{name: value}) }
	es256 := func(claims any) string { return sign(t, "ES256", "ec", ecKey, claims) }
	good := es256(p.claims(now, nil))
	parts := strings.Split(good, ".")
	other := strings.Split(es256(with("repository", "x")), ".")
	der := must(x509.MarshalPKIXPublicKey(&rsaKey.PublicKey))
	hs256 := func(secret []byte) string {
		unsigned := raw(map[string]string{"alg": "HS256", "kid": "rsa", "typ": "JWT"}, p.claims(now, nil), nil)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(strings.TrimSuffix(unsigned, ".")))
		return raw(map[string]string{"alg": "HS256", "kid": "rsa", "typ": "JWT"}, p.claims(now, nil), mac.Sum(nil))
	}
	for name, token := range map[string]string{
		"empty":                    "",
		"no parts":                 "..",
		"no JWT":                   "a.b.c",
		"no claims":                raw(map[string]string{"alg": "ES256"}, "text", []byte("x")),
		"alg none":                 raw(map[string]string{"alg": "none"}, p.claims(now, nil), nil),
		"alg none, signed":         raw(map[string]string{"alg": "none"}, p.claims(now, nil), []byte("x")),
		"alg None, key":            raw(map[string]string{"alg": "None", "kid": "ec"}, p.claims(now, nil), []byte("x")),
		"no alg":                   raw(map[string]string{"kid": "ec"}, p.claims(now, nil), []byte("x")),
		"HS256 with the DER":       hs256(der),
		"HS256 with the PEM":       hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HS256 with the modulus":   hs256(rsaKey.N.Bytes()),
		"an algorithm not allowed": sign(t, "RS512", "rsa", rsaKey, p.claims(now, nil)),
		"another's key":            sign(t, "ES256", "ec", stranger, p.claims(now, nil)),
		"another's key, no id":     sign(t, "ES256", "", stranger, p.claims(now, nil)),
		"a key that is not known":  sign(t, "ES256", "new", ecKey, p.claims(now, nil)),
		"a key of another kind":    sign(t, "ES256", "rsa", ecKey, p.claims(now, nil)),
		"claims exchanged":         parts[0] + "." + other[1] + "." + parts[2],
		"signature exchanged":      parts[0] + "." + parts[1] + "." + other[2],
		"as JSON":                  `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		"with white space":         good[:10] + "\n" + good[10:],
		"padded":                   good + "=",
		"a spare bit set":          good[:len(good)-1] + string(good[len(good)-1]+1),
		"four parts":               good + ".x",
		"too long":                 good + strings.Repeat("A", 16<<10),
		"another audience":         es256(with("aud", "modproxy2")),
		"audiences of others":      es256(with("aud", []string{"a", "b"})),
		"no audience":              es256(with("aud", nil)),
		"another issuer":           es256(with("iss", "https://other.example")),
		"an issuer's prefix":       es256(with("iss", p.URL+"/")),
		"no issuer":                es256(with("iss", nil)),
		"ſub":                      es256(p.claims(now, map[string]any{"\u017fub": "repo:acme/root"})),
		"iſſ":                      es256(p.claims(now, map[string]any{"i\u017f\u017f": p.URL})),
		"Exp":                      es256(p.claims(now, map[string]any{"Exp": now.Add(time.Hour).Unix()})),
		"IAT":                      es256(p.claims(now, map[string]any{"IAT": now.Unix()})),
		"_Claim_names":             es256(p.claims(now, map[string]any{"_Claim_names": map[string]string{}})),
		"ISS":                      es256(p.claims(now, map[string]any{"iss": nil, "ISS": p.URL})),
		"Aud beside aud":           es256(with("Aud", "x")),
		"no subject":               es256(with("sub", nil)),
		"an empty subject":         es256(with("sub", "")),
		"expired, of a stranger":   es256(p.claims(now, map[string]any{"exp": now.Add(-61 * time.Second).Unix(), "repository": "x/y", "groups": nil})),
		"expired, another's key":   sign(t, "ES256", "ec", stranger, with("exp", now.Add(-61*time.Second).Unix())),
		"expired, for another":     es256(p.claims(now, map[string]any{"exp": now.Add(-61 * time.Second).Unix(), "aud": "modproxy2"})),
		"no expiry":                es256(with("exp", nil)),
		"not yet":                  es256(with("nbf", now.Add(62*time.Second).Unix())),
		"not yet, by a word":       es256(with("nbf", "soon")),
	} {
		got, err := v.Verify(t.Context(), token, now)
		if !errors.Is(err, modproxy.ErrUnauthorized) || got.Kind != auth.Nobody || err.Error() != (&auth.Refused{}).Error() || why(err) == "" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if s := why(err); len(s) > 500 || len(parts[2]) > 0 && strings.Contains(s, parts[2]) {
			t.Errorf("%s: %s", name, s)
		}
	}
	for name, token := range map[string]string{
		"just expired": es256(with("exp", now.Add(-58*time.Second).Unix())),
		"almost good":  es256(with("nbf", now.Add(58*time.Second).Unix())),
		"no nbf":       es256(with("nbf", nil)),
		"good":         good,
	} {
		if _, err := v.Verify(t.Context(), token, now); err != nil {
			t.Errorf("%s: %v (%s)", name, err, why(err))
		}
	}
}

// TestVerifiedIsForgotten: a verified token is cached for a minute, and not beyond its expiry.
func TestVerifiedIsForgotten(t *testing.T) {
	p := newProvider(t, published("ec", ecKey))
	v := p.verifier(t)
	now := time.Now()
	token := sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"exp": now.Add(90 * time.Second).Unix()}))
	if _, err := v.Verify(t.Context(), token, now); err != nil {
		t.Fatal(err)
	}
	later := func(d time.Duration) error {
		_, err := v.Verify(t.Context(), token, now.Add(d))
		return err
	}
	if err := later(59 * time.Second); err != nil {
		t.Error(err)
	}
	if err := later(140 * time.Second); err != nil { // within the skew, and verified again
		t.Error(err)
	}
	if err := later(160 * time.Second); !errors.Is(err, modproxy.ErrUnauthorized) {
		t.Errorf("after its end: %v", err)
	}
}

func TestIssuersAreToldApart(t *testing.T) {
	a, b := newProvider(t, published("k", ecKey)), newProvider(t, published("k", rsaKey))
	second := b.issuer()
	second.Groups = second.Groups[:1]
	v := a.verifier(t, second)
	now := time.Now()
	first, err := v.Verify(t.Context(), sign(t, "ES256", "k", ecKey, a.claims(now, nil)), now)
	if err != nil {
		t.Fatal(err)
	}
	same, err := v.Verify(t.Context(), sign(t, "ES256", "k", ecKey, a.claims(now, map[string]any{"jti": "2"})), now)
	if err != nil || same.ID != first.ID {
		t.Error("one subject has two ids:", same, err)
	}
	stranger, err := v.Verify(t.Context(), sign(t, "RS256", "k", rsaKey, b.claims(now, map[string]any{"groups": "staff"})), now)
	if err != nil || stranger.ID == first.ID || !slices.Equal(stranger.Groups, []string{"infra"}) {
		t.Errorf("the subject of another issuer: %+v, %v", stranger, err)
	}
	for name, token := range map[string]string{
		"signed by the other": sign(t, "RS256", "k", rsaKey, a.claims(now, nil)),
		"of the other's":      sign(t, "ES256", "k", ecKey, b.claims(now, nil)),
	} {
		if got, err := v.Verify(t.Context(), token, now); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestVerifyExpired: a client with an expired token that would otherwise be accepted learns that it has expired.
func TestVerifyExpired(t *testing.T) {
	p := newProvider(t, published("ec", ecKey))
	now := time.Now()
	token := sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"exp": now.Add(-61 * time.Second).Unix()}))
	_, err := p.verifier(t).Verify(t.Context(), token, now)
	if !errors.Is(err, modproxy.ErrUnauthorized) || !strings.HasPrefix(err.Error(), "unauthorized: the token of "+p.URL+" has expired on 20") {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	good := oidc.Issuer{URL: "https://idp.example", Audience: "modproxy"}
	group := oidc.Group{Name: "g", Match: []string{"a=b"}, Admin: true}
	for name, change := range map[string]func(i *oidc.Issuer){
		"http":                 func(i *oidc.Issuer) { i.URL = "http://idp.example" },
		"no URL":               func(i *oidc.Issuer) { i.URL = "" },
		"user":                 func(i *oidc.Issuer) { i.URL = "https://u:p@idp.example" },
		"query":                func(i *oidc.Issuer) { i.URL = "https://idp.example?x" },
		"no audience":          func(i *oidc.Issuer) { i.Audience = "" },
		"none":                 func(i *oidc.Issuer) { i.Algorithms = []string{"none"} },
		"HS256":                func(i *oidc.Issuer) { i.Algorithms = []string{"RS256", "HS256"} },
		"no algorithm":         func(i *oidc.Issuer) { i.Algorithms = []string{""} },
		"everybody":            func(i *oidc.Issuer) { group := group; group.Match = nil; i.Groups = []oidc.Group{group} },
		"a group without name": func(i *oidc.Issuer) { group := group; group.Name = ""; i.Groups = []oidc.Group{group} },
		"values without claim": func(i *oidc.Issuer) { i.Groups = []oidc.Group{{Name: "g", Values: []string{"x"}, Admin: true}} },
		"an empty value": func(i *oidc.Issuer) {
			i.GroupsClaim = "g"
			i.Groups = []oidc.Group{{Name: "g", Values: []string{""}, Admin: true}}
		},
		"an empty value to be ": func(i *oidc.Issuer) { group := group; group.Match = []string{"a="}; i.Groups = []oidc.Group{group} },
		"no claim":              func(i *oidc.Issuer) { group := group; group.Match = []string{"a"}; i.Groups = []oidc.Group{group} },
		"a claim twice": func(i *oidc.Issuer) {
			group := group
			group.Match = []string{"a=b", "a=c"}
			i.Groups = []oidc.Group{group}
		},
		"a group for nothing": func(i *oidc.Issuer) { group := group; group.Admin = false; i.Groups = []oidc.Group{group} },
	} {
		i := good
		change(&i)
		if _, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{i}}); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{good, good}}); !errors.Is(err, modproxy.ErrInvalid) {
		t.Error(err)
	}
	one, other := good, oidc.Issuer{URL: "https://other.example", Audience: "modproxy"}
	one.Login.Client = "cli"
	if _, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{one, other}}); err != nil {
		t.Error(err)
	}
	other.Login.Client = "cli"
	if _, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{one, other}}); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "https://idp.example has a login already") {
		t.Errorf("two logins: %v", err)
	}
	first, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{good}})
	if err != nil {
		t.Fatal(err)
	}
	good.Groups = []oidc.Group{group}
	second, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{good}})
	if err != nil || first.Rules() == second.Rules() || first.Rules() == "" {
		t.Error(first.Rules(), second.Rules(), err)
	}
}

// FuzzVerify: only the signed token is accepted, in its one spelling.
func FuzzVerify(f *testing.F) {
	p := newProvider(f, published("ec", ecKey))
	v := p.verifier(f)
	now := time.Now()
	token := sign(f, "ES256", "ec", ecKey, p.claims(now, map[string]any{"exp": now.Add(24 * time.Hour).Unix()}))
	f.Add(token)
	f.Add(raw(map[string]string{"alg": "none"}, p.claims(now, nil), []byte("x")))
	f.Add(raw(map[string]any{"alg": "ES256", "crit": []string{"b64"}, "b64": false, "kid": "ec"}, p.claims(now, nil), []byte("x")))
	f.Add(raw(map[string]any{"alg": "ES256", "jwk": published("ec", ecKey)}, json.RawMessage(`{"iss":"x","exp":1e999}`), []byte("x")))
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := v.Verify(t.Context(), s, now); (err == nil) != (s == token) {
			t.Fatalf("%q: %v, %v", s, got, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	p := newProvider(b, published("rsa", rsaKey))
	v := p.verifier(b)
	now := time.Now()
	token := sign(b, "RS256", "rsa", rsaKey, p.claims(now, map[string]any{"pad": strings.Repeat("x", 600)}))
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Verify(b.Context(), token, now); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.verifier(b).Verify(b.Context(), token, now); err != nil { // fetches the keys, too
				b.Fatal(err)
			}
		}
	})
}

// TestSubjectIsEscaped: a subject stays on one line of a log, in one text direction.
func TestSubjectIsEscaped(t *testing.T) {
	p := newProvider(t, published("ec", ecKey))
	now := time.Now()
	for subject, want := range map[string]string{
		"repo:\u202eacme\u2066": `repo:\u202eacme\u2066`, "a\nb\x1b[0m": `a\nb\x1b[0m`, "é": "é",
		strings.Repeat("a", 199) + "é\u200f": strings.Repeat("a", 199) + "…",
	} {
		got, err := p.verifier(t).Verify(t.Context(), sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"sub": subject})), now)
		if err != nil || got.Name != want {
			t.Errorf("%q: %q, %v", subject, got.Name, err)
		}
	}
}
