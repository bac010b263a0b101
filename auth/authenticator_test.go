package auth_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// issuer accepts one text as a token.
type issuer struct {
	text  string
	login *auth.Login
}

func (i issuer) Login(time.Time) *auth.Login { return i.login }

func (i issuer) Verify(_ context.Context, text string, _ time.Time) (auth.Principal, error) {
	if text != i.text {
		return auth.Principal{}, &auth.Refused{Why: "not mine"}
	}
	return auth.Principal{Kind: auth.ByIssuer, ID: auth.IDOf("issuer", "job"), Name: "job", Grant: auth.Grant{Scopes: acme}}, nil
}

func basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

// refusal returns the error text for a client that is not identified.
func refusal(shown bool) string {
	if !shown {
		return "unauthorized: no token was sent"
	}
	return "unauthorized: the token is not known, has expired or was revoked"
}

func TestIdentify(t *testing.T) {
	tokens := open(t, filepath.Join(t.TempDir(), "tokens.json"))
	text, _ := create(t, tokens, auth.Token{Name: "ci", Scopes: acme})
	all := &auth.Authenticator{Tokens: tokens, JWT: issuer{text: "aa.bb.cc"}}
	open := &auth.Authenticator{Tokens: tokens}
	for name, c := range map[string]struct {
		a      *auth.Authenticator
		values []string
		want   auth.Kind
	}{
		"bearer":                 {all, []string{"Bearer " + text}, auth.ByToken},
		"bearer in any case":     {all, []string{"bEARER  " + text + " "}, auth.ByToken},
		".netrc":                 {all, []string{basic("any:" + text)}, auth.ByToken},
		".netrc without a login": {all, []string{basic(":" + text)}, auth.ByToken},
		"JWT":                    {all, []string{"Bearer aa.bb.cc"}, auth.ByIssuer},
		"JWT in .netrc":          {all, []string{basic("job:aa.bb.cc")}, auth.ByIssuer},
		"another's JWT":          {all, []string{"Bearer aa.bb.cd"}, auth.Nobody},
		"a JWT, and no issuer":   {open, []string{"Bearer aa.bb.cc"}, auth.Nobody},
		"a token, and no tokens": {&auth.Authenticator{JWT: issuer{text: text}}, []string{"Bearer " + text}, auth.Nobody},
		"nothing":                {all, nil, auth.Nobody},
		"empty":                  {all, []string{""}, auth.Nobody},
		"bearer of nothing":      {all, []string{"Bearer "}, auth.Nobody},
		"no scheme":              {all, []string{text}, auth.Nobody},
		"another scheme":         {all, []string{"Digest " + text}, auth.Nobody},
		"token as the login":     {all, []string{basic(text + ":")}, auth.Nobody},
		"no base64":              {all, []string{"Basic " + text}, auth.Nobody},
		"two":                    {all, []string{"Bearer " + text, "Bearer " + text}, auth.Nobody},
		"somebody else's":        {all, []string{"Bearer 0123456789.atlasv1.0123456789"}, auth.Nobody},
		"too long":               {all, []string{"Bearer " + strings.Repeat(" ", 40<<10) + text}, auth.Nobody},
		"half a token":           {open, []string{"Bearer mp_x"}, auth.Nobody},
	} {
		header := http.Header{}
		if c.values != nil {
			header["Authorization"] = c.values
		}
		p, err := c.a.Identify(t.Context(), header, time.Now())
		if p.Kind != c.want || (err == nil) != (c.want != auth.Nobody) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		if p.MayRead(module("corp", "acme")) != (c.want != auth.Nobody) || p.MayRead(module("corp", "x")) {
			t.Errorf("%s: %+v", name, p)
		}
		if err != nil && (!errors.Is(err, modproxy.ErrUnauthorized) || err.Error() != refusal(c.values != nil)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPackageIsForWhoMayRead(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	a := &auth.Authenticator{Tokens: f.tokens, Signer: f.signer}
	good, bad := f.sign(t), f.sign(t)[:20]
	header := http.Header{"Authorization": {basic("any:" + f.text)}}
	for name, c := range map[string]struct {
		header  http.Header
		segment string
		path    string
		m       modproxy.Address
		want    error
	}{
		"signed":                {nil, good, vpcPath, vpc, nil},
		"by .netrc":             {header, "", vpcPath, vpc, nil},
		"by neither":            {nil, "", vpcPath, vpc, modproxy.ErrUnauthorized},
		"badly signed":          {nil, bad, vpcPath, vpc, modproxy.ErrUnauthorized},
		"badly signed, .netrc":  {header, bad, vpcPath, vpc, modproxy.ErrUnauthorized},
		"another's by .netrc":   {header, "", otherPath, other, modproxy.ErrNotFound},
		"another's, signed for": {nil, good, otherPath, other, modproxy.ErrUnauthorized},
	} {
		p, err := a.Package(t.Context(), c.header, c.segment, c.path, c.m, f.now)
		if !errors.Is(err, c.want) || (c.want == modproxy.ErrUnauthorized) != (p.Kind == auth.Nobody) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	a.Signer = nil
	if _, err := a.Package(t.Context(), nil, good, vpcPath, vpc, f.now); !errors.Is(err, modproxy.ErrUnauthorized) {
		t.Error(err)
	}
}

// TestAnybody: a client without a credential may read what Anonymous covers. A client with an invalid credential is refused,
// regardless of what it requests.
func TestAnybody(t *testing.T) {
	f := newSigned(t, auth.SignerConfig{})
	a := &auth.Authenticator{Tokens: f.tokens, Signer: f.signer, Anonymous: scopes(t, "pub/*", "corp/other")}
	none, good, bad := http.Header{}, http.Header{"Authorization": {"Bearer " + f.text}}, http.Header{"Authorization": {"Bearer " + f.text + "x"}}
	all := auth.Authenticator{Anonymous: scopes(t, "*")}
	for name, c := range map[string]struct {
		a      *auth.Authenticator
		header http.Header
		m      modproxy.Address
		want   bool
	}{
		"a module":                    {a, none, other, true},
		"of a registry":               {a, none, module("pub", "x"), true},
		"a provider":                  {a, none, modproxy.NewProvider("corp", "other", "x"), true},
		"not this one":                {a, none, vpc, false},
		"not there":                   {a, none, module("pub2", "other"), false},
		"a namespace":                 {a, none, modproxy.Address{Host: "corp", Namespace: "other"}, true},
		"not this namespace":          {a, none, modproxy.Address{Host: "corp", Namespace: "acme"}, false},
		"some of a registry":          {a, none, modproxy.Address{Host: "corp"}, true},
		"none of a registry":          {a, none, modproxy.Address{Host: "corp2"}, false},
		"no module":                   {a, none, modproxy.Address{}, false},
		"no module, and everything":   {&all, none, modproxy.Address{}, true},
		"with a token":                {a, good, other, false},
		"with another token":          {a, bad, other, false},
		"with an empty credential":    {a, http.Header{"Authorization": {""}}, other, false},
		"with two empty credentials":  {a, http.Header{"Authorization": {"", ""}}, other, false},
		"nothing is for anybody":      {&auth.Authenticator{}, none, other, false},
		"nothing, not even a request": {&auth.Authenticator{}, nil, modproxy.Address{}, false},
	} {
		p, ok := c.a.Anybody(c.header, c.m)
		if ok != c.want || ok != (p.Kind == auth.Anonymous) || p.MayRead(vpc) && c.a != &all || p.Admin || p.ID != "" || p.RuleGroups() != nil {
			t.Errorf("%s: %v, %+v", name, ok, p)
		}
	}
	for name, c := range map[string]struct {
		a      *auth.Authenticator
		header http.Header
		hosts  []string
		want   bool
	}{
		"one registry":                 {a, none, []string{"pub"}, true},
		"and some of another":          {a, none, []string{"pub", "corp"}, false},
		"and one that nobody may read": {a, none, []string{"pub2", "pub"}, false},
		"no registry":                  {a, none, nil, false},
		"every registry":               {a, none, []string{auth.AnySegment}, false},
		"every registry for everybody": {&all, none, []string{auth.AnySegment}, true},
		"with a token":                 {&all, good, []string{"pub"}, false},
	} {
		if p, ok := c.a.AnybodyOfAll(c.header, slices.Values(c.hosts)); ok != c.want || ok != (p.Kind == auth.Anonymous) {
			t.Errorf("%s: %v, %+v", name, ok, p)
		}
	}
	for name, c := range map[string]struct {
		header http.Header
		m      modproxy.Address
		path   string
		want   error
		kind   auth.Kind
	}{
		"by nobody":            {none, other, otherPath, nil, auth.Anonymous},
		"another's":            {none, vpc, vpcPath, modproxy.ErrUnauthorized, auth.Nobody},
		"with its token":       {good, vpc, vpcPath, nil, auth.ByToken},
		"with any good token":  {good, other, otherPath, nil, auth.ByToken},
		"not for this token":   {good, module("corp", "third"), "/x", modproxy.ErrNotFound, auth.ByToken},
		"with another token":   {bad, other, otherPath, modproxy.ErrUnauthorized, auth.Nobody},
		"which is not for all": {bad, vpc, vpcPath, modproxy.ErrUnauthorized, auth.Nobody},
	} {
		p, err := a.Package(t.Context(), c.header, "", c.path, c.m, f.now)
		if !errors.Is(err, c.want) || p.Kind != c.kind {
			t.Errorf("a package %s: %v, %v", name, p, err)
		}
	}
	if p, err := a.Identify(t.Context(), none, f.now); !errors.Is(err, modproxy.ErrUnauthorized) || p.Kind != auth.Nobody {
		t.Errorf("a client that asks for nothing in particular: %v, %v", p, err)
	}
	if err := a.Still(auth.Principal{Kind: auth.Anonymous}, f.now); err != nil {
		t.Error(err)
	}
	// The path of an anonymously readable package has no segment, so it cannot outlive the configuration.
	for _, p := range []auth.Principal{f.token, {Kind: auth.Anonymous}} {
		if path, err := a.Path(p, otherPath, other, f.now); path != otherPath || err != nil {
			t.Errorf("for %v: %s, %v", p, path, err)
		}
	}
	if path, err := a.Path(f.token, vpcPath, vpc, f.now); err != nil || path != "/"+f.sign(t)+vpcPath {
		t.Error(path, err)
	}
	if path, err := a.Path(auth.Principal{Kind: auth.Anonymous}, vpcPath, vpc, f.now); err == nil {
		t.Errorf("signed for anybody: %s", path)
	}
}

// FuzzIdentify: only a header with its token identifies a client.
func FuzzIdentify(f *testing.F) {
	tokens := open(f, filepath.Join(f.TempDir(), "tokens.json"))
	text, made := create(f, tokens, auth.Token{Name: "ci", Scopes: acme})
	a := &auth.Authenticator{Tokens: tokens, JWT: issuer{}}
	f.Add("Bearer " + text)
	f.Add(basic("a:" + text))
	f.Add("Bearer mp_" + made.ID + "_")
	f.Add("Basic Og==")
	f.Fuzz(func(t *testing.T, value string) {
		p, err := a.Identify(t.Context(), http.Header{"Authorization": {value}}, time.Now())
		known := strings.Contains(value, text)
		if _, pair, ok := strings.Cut(value, " "); ok {
			decoded, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(pair))
			known = known || strings.HasSuffix(string(decoded), ":"+text)
		}
		if (err == nil) != (p.Kind == auth.ByToken) || p.Kind != auth.Nobody && !known {
			t.Fatalf("%q: %v, %v", value, p, err)
		}
	})
}

// FuzzToken: only the text that Create returned is valid.
func FuzzToken(f *testing.F) {
	tokens := open(f, filepath.Join(f.TempDir(), "tokens.json"))
	text, _ := create(f, tokens, auth.Token{Name: "ci", Scopes: acme})
	for i := range text {
		f.Add(text[:i] + "a" + text[i+1:])
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := tokens.Verify(s, time.Now()); (err == nil) != (s == text) {
			t.Fatalf("%q: %v, %v", s, p, err)
		}
	})
}

// TestOpaqueToken: where login is configured, a token that only the issuer can read is refused with an explanation.
func TestOpaqueToken(t *testing.T) {
	for _, login := range []*auth.Login{nil, {Client: "modproxy"}} {
		a := &auth.Authenticator{JWT: issuer{login: login}}
		for _, token := range []string{"opaque", "en.crypt.ed.to.ken"} {
			_, err := a.Identify(t.Context(), http.Header{"Authorization": {"Bearer " + token}}, time.Now())
			var refused *auth.Refused
			if !errors.As(err, &refused) || strings.Contains(err.Error(), "JSON Web Token") != (login != nil) || strings.Contains(err.Error(), token) {
				t.Errorf("%v: %v", login, err)
			}
		}
		if a.Login(time.Now()) != login {
			t.Error(a.Login(time.Now()))
		}
	}
	if (*auth.Authenticator)(nil).Login(time.Now()) != nil || (&auth.Authenticator{}).Login(time.Now()) != nil {
		t.Error("a login without an issuer")
	}
}
