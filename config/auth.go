package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
	"github.com/modproxy/modproxy/hostname"
)

// RequiresToken reports whether clients have to show a credential.
func (c *Config) RequiresToken() bool { return c.RequiresTokenBecause() != "" }

// RequiresTokenBecause returns why clients have to show a credential; empty if they do
// not have to. On a loopback address they have to if something stands in front: it
// passes on what others ask, and is itself on this machine.
func (c *Config) RequiresTokenBecause() string {
	loopback, err := parseListen(c.Listen)
	switch {
	case c.Anonymous:
		return ""
	case c.Auth.Required:
		return "auth.required is true"
	case err != nil || !loopback:
		return "other machines can reach " + c.Listen
	case c.PublicURL != "" && !IsLocalURL(c.PublicURL):
		return "other machines are told of it: public_url is " + c.PublicURL
	case len(c.TrustedProxies) > 0:
		return "it has trusted_proxies, which stand in front of it for others"
	}
	return ""
}

// IsLocalURL reports whether the host of a URL is this machine for everyone who uses it.
func IsLocalURL(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback() || hostname.IsLocalhost(u.Hostname())
}

// OIDC returns the issuers as package oidc takes them.
func (a *Auth) OIDC() ([]oidc.Issuer, error) {
	var issuers []oidc.Issuer
	for _, i := range a.Issuers {
		issuer := oidc.Issuer{URL: i.URL, Audience: i.Audience, Algorithms: i.Algorithms, GroupsClaim: i.GroupsClaim}
		for _, g := range i.Groups {
			match, err := parseMatch(g.Match)
			if err != nil {
				return nil, err
			}
			issuer.Groups = append(issuer.Groups, oidc.Group{
				Name: g.Name, Values: g.Values, Match: match, Grant: auth.Grant{Admin: g.Admin, Scopes: g.Scopes},
			})
		}
		issuers = append(issuers, issuer)
	}
	return issuers, nil
}

// Scopes are several scopes.
type Scopes []auth.Scope

// Covers reports whether one of the scopes covers m.
func (all Scopes) Covers(m modproxy.Module) bool {
	return slices.ContainsFunc(all, func(s auth.Scope) bool { return s.Covers(m) })
}

// parseMatch reads claims and their values.
func parseMatch(pairs []string) (map[string]string, error) {
	match := map[string]string{}
	for _, pair := range pairs {
		claim, value, _ := strings.Cut(pair, "=")
		if claim == "" || value == "" {
			return nil, fmt.Errorf("%w: want claim=value, not %.100q", modproxy.ErrInvalid, pair)
		}
		if match[claim] != "" {
			return nil, fmt.Errorf("%w: the claim %.100q appears twice, and has one value", modproxy.ErrInvalid, claim)
		}
		match[claim] = value
	}
	return match, nil
}
