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

// Login has clients send people to the issuer, who come back with an access token of it. That has to be a JSON Web Token
// for the issuer's audience: it is shown here, and nothing is done for it by this proxy before.
type Login struct {
	// Client is the id of a public client of the issuer: one with no secret, with PKCE, and with the redirect URIs
	// http://localhost:PORT/login.
	Client string `yaml:"client" example:"modproxy"`
	// Scopes are what clients ask for, so that the issuer makes an access token for the audience.
	Scopes []string `yaml:"scopes" example:"[openid]"`
	// Parameters are what is added to the URL that people open, for issuers that want to be told the audience there.
	Parameters []string `yaml:"parameters" example:"[audience=https://modules.example.com]"`
	// Ports are the first and the last port of these redirect URIs: 10000 and 10010 if they are not set.
	Ports []int `yaml:"ports" example:"[10000, 10010]"`
}

const maxURL = 2048 // of an endpoint, in bytes: it is in every answer to a client that asks what is here

// parametersOfClients are those that clients add to the URL themselves (interactiveGetTokenByCode in command/login.go).
var parametersOfClients = []string{"client_id", "code_challenge", "code_challenge_method", "redirect_uri", "response_type", "scope", "state"}

// IsSet reports whether people log in there.
func (l *Login) IsSet() bool { return l.Client != "" }

// wrong returns what is wrong with the login, or an empty string.
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
	// Clients take a port at random, but never the last (listenerForCallback in command/login.go), and none below 1024.
	if p := l.Ports; len(p) > 0 && (len(p) != 2 || p[0] < 1024 || p[0] >= p[1] || p[1] > 65535) {
		return "ports: want the first and a greater last, from 1024 to 65535, as in [10000, 10010]"
	}
	return ""
}

// at returns where people log in by an issuer's discovery document (openid-connect-discovery-1_0, section 3; RFC 8414,
// section 2), in which the issuer is checked; nil if l is not set.
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
	if len(d.Challenges) > 0 && !slices.Contains(d.Challenges, "S256") { // which clients use; some that do, too, do not say so
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

// withParameters returns a URL, which checkURL has passed, with the parameters added to its query.
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

// Login implements [auth.Verifier]. While it is not known, it has the issuer asked for it, at most once a minute.
func (v *Verifier) Login(now time.Time) *auth.Login {
	if v.login == nil {
		return nil
	}
	i := v.login
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.login == nil || now.Sub(i.got) > maxAge {
		i.start(now, retryStale)
	}
	return i.login
}
