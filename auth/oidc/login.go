package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// Login makes clients send people to the issuer, which returns them with an access token. The access token must be a JSON Web
// Token for the issuer's audience. Clients then send it to this proxy, which takes no part in the login itself.
type Login struct {
	// Client is the id of a public client of the issuer: a client without a secret, with PKCE, and with the redirect URIs
	// http://localhost:PORT/login.
	Client string `yaml:"client" example:"modproxy"`
	// Scopes are the OAuth scopes that clients request, so that the issuer issues an access token for the audience.
	Scopes []string `yaml:"scopes" example:"[openid]"`
	// Parameters are added to the URL that people open, for issuers that expect the audience there.
	Parameters []string `yaml:"parameters" example:"[audience=https://modules.example.com]"`
	// Ports are the first and the last port of the redirect URIs. If they are not set: 10000 and 10010.
	Ports []int `yaml:"ports" example:"[10000, 10010]"`
}

const maxURL = 2048 // of an endpoint, in bytes; every service discovery document contains it

// parametersOfClients are those that clients add to the URL themselves (interactiveGetTokenByCode in command/login.go).
var parametersOfClients = []string{"client_id", "code_challenge", "code_challenge_method", "redirect_uri", "response_type", "scope", "state"}

// IsSet reports whether login is configured.
func (l *Login) IsSet() bool { return l.Client != "" }

// wrong describes a mistake in the login, or returns an empty string.
func (l *Login) wrong() string {
	if l.Client == "" {
		if len(l.Scopes)+len(l.Ports)+len(l.Parameters) > 0 {
			return "it needs a client: the id of a public client that is registered at the issuer"
		}
		return ""
	}
	if strings.ContainsFunc(l.Client, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Sprintf("client %.80q: want printable ASCII (RFC 6749, appendix A.1)", l.Client)
	}
	for _, scope := range l.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return fmt.Sprintf("scope %.80q: want one scope in each entry, without spaces (RFC 6749, appendix A.4)", scope)
		}
	}
	for _, parameter := range l.Parameters {
		name, _, ok := strings.Cut(parameter, "=")
		if !ok || name == "" || slices.Contains(parametersOfClients, name) {
			return fmt.Sprintf("parameter %.80q: want NAME=VALUE, and no name of these: %s", parameter, strings.Join(parametersOfClients, ", "))
		}
	}
	// Clients choose a port at random, but never the last one (listenerForCallback in command/login.go), and none below 1024.
	if p := l.Ports; len(p) > 0 && (len(p) != 2 || p[0] < 1024 || p[0] >= p[1] || p[1] > 65535) {
		return "ports: want the first and a greater last, from 1024 to 65535, as in [10000, 10010]"
	}
	return ""
}

// at returns the login by an issuer's discovery document (openid-connect-discovery-1_0, section 3; RFC 8414, section 2). The
// caller has checked the issuer in it. If l is not set, at returns nil.
func (l *Login) at(document []byte) (*auth.Login, error) {
	if !l.IsSet() {
		return nil, nil
	}
	var d struct {
		Authorize  string   `json:"authorization_endpoint"`
		Token      string   `json:"token_endpoint"`
		Challenges []string `json:"code_challenge_methods_supported"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	if len(d.Challenges) > 0 && !slices.Contains(d.Challenges, "S256") { // clients use S256; some issuers support it without listing it
		return nil, fmt.Errorf("the issuer does not support PKCE with S256, but %.100q", d.Challenges)
	}
	for _, endpoint := range []struct{ name, url string }{{"authorization_endpoint", d.Authorize}, {"token_endpoint", d.Token}} {
		err := checkURL(endpoint.url)
		if err == nil && len(endpoint.url) > maxURL {
			err = errors.New("too long")
		}
		if err != nil {
			return nil, fmt.Errorf("%s %.200q: %w", endpoint.name, endpoint.url, err)
		}
	}
	login := &auth.Login{
		Client: l.Client, GrantTypes: []string{"authz_code"}, Authorize: l.withParameters(d.Authorize), Token: d.Token,
		Ports: [2]int{10000, 10010}, Scopes: l.Scopes,
	}
	copy(login.Ports[:], l.Ports)
	return login, nil
}

// withParameters returns a URL with the parameters added to its query. The URL has passed checkURL.
func (l *Login) withParameters(where string) string {
	for _, parameter := range l.Parameters {
		name, value, _ := strings.Cut(parameter, "=")
		separator := "?"
		if strings.Contains(where, "?") {
			separator = "&"
		}
		where += separator + url.QueryEscape(name) + "=" + url.QueryEscape(value)
	}
	return where
}

// Login implements [auth.Verifier]. It returns nil if no issuer has a login, or the endpoints are not known yet. If they are not
// known, or older than 59 minutes, Login starts a request to the issuer, at most once a minute, and does not wait for it.
func (v *Verifier) Login(now time.Time) *auth.Login {
	if v.login == nil {
		return nil
	}
	i := v.login
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.login == nil || now.Sub(i.got) > maxAge {
		_, _ = i.start(now, retryStale) // without a pool, it always starts
	}
	return i.login
}
