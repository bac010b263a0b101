package config

import (
	"fmt"
	"net/http"
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

// RequiresTokenBecause is why clients have to show a credential; empty if they have not. On
// a loopback address they have to where something stands in front, for others: it
// hands their requests on, and is itself on this machine.
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

// IsLocalURL reports whether a URL has a host that is this machine for whoever uses it.
func IsLocalURL(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback() || hostname.IsLocalhost(u.Hostname())
}

// auth finds what is wrong with who may ask: above all, rules that would not count.
func (k *checker) auth(c *Config) {
	anonymous := ""
	if c.Anonymous {
		anonymous = fmt.Sprintf("nobody is asked who they are, by anonymous: true (%s)", k.sources.Of("anonymous"))
	} else if !c.RequiresToken() {
		anonymous = "nobody is asked who they are on a loopback address: say auth.required: true"
	}
	if c.Anonymous && c.Auth.Required {
		k.fail("auth.required", "%s", anonymous)
	}
	if anonymous != "" && len(c.Auth.Issuers) > 0 {
		k.fail("auth.issuers", "%s", anonymous)
	}
	if err := (auth.SignerConfig{Life: c.Auth.SignedPaths}).Check(); err != nil {
		k.fail("auth.signed_paths", "%w", err)
	}
	seen := map[string]bool{}
	for i := range c.Auth.Issuers {
		path := fmt.Sprintf("auth.issuers[%d]", i)
		issuer := &c.Auth.Issuers[i]
		if seen[issuer.URL] {
			k.fail(path+".url", "%.200s is there twice", issuer.URL)
		}
		seen[issuer.URL] = issuer.URL != ""
		k.issuer(path, issuer)
	}
}

func (k *checker) issuer(path string, issuer *Issuer) {
	before := len(k.problems)
	if issuer.URL == "" {
		k.fail(path+".url", "missing")
	}
	if issuer.Audience == "" {
		k.fail(path+".audience", "missing: it is the name of this proxy in the tokens that are for it")
	}
	for i := range issuer.Groups {
		g, path := issuer.Groups[i], fmt.Sprintf("%s.groups[%d]", path, i)
		if g.Name == "" {
			k.fail(path+".name", "missing")
		}
		for j, s := range g.Scopes {
			if _, err := ParseScope(s); err != nil {
				k.fail(fmt.Sprintf("%s.scopes[%d]", path, j), "%w", err)
			}
		}
		if len(g.Scopes) == 0 && !g.Admin {
			k.fail(path, "it could do nothing: want scopes or admin: true")
		}
		if _, err := parseMatch(g.Match); err != nil {
			k.fail(path+".match", "%w", err)
		}
	}
	if len(k.problems) > before {
		return
	}
	if _, err := NewVerifier([]Issuer{*issuer}, http.DefaultTransport, nil); err != nil {
		k.fail(path, "%w", err)
	}
}

// ParseScope reads a scope with its host as people write it.
func ParseScope(s string) (auth.Scope, error) {
	host, namespace, ok := strings.Cut(s, "/")
	if ok && host != "*" {
		normalised, err := hostname.Parse(host)
		if err != nil {
			return auth.Scope{}, err
		}
		s = normalised + "/" + namespace
	}
	return auth.ParseScope(s)
}

// Scopes are several scopes.
type Scopes []auth.Scope

// ParseScopes reads scopes with their hosts as people write them.
func ParseScopes(list []string) (all Scopes, err error) {
	for _, s := range list {
		scope, err := ParseScope(s)
		if err != nil {
			return nil, err
		}
		all = append(all, scope)
	}
	return all, nil
}

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
		if _, twice := match[claim]; twice {
			return nil, fmt.Errorf("%w: the claim %.100q is there twice, and has one value", modproxy.ErrInvalid, claim)
		}
		match[claim] = value
	}
	return match, nil
}

// NewVerifier knows people and jobs by the tokens of issuers, which have been
// checked.
func NewVerifier(issuers []Issuer, transport http.RoundTripper, observe func(issuer string, err error)) (*oidc.Verifier, error) {
	cfg := oidc.Config{Transport: transport, Observe: observe}
	for _, i := range issuers {
		issuer := oidc.Issuer{URL: i.URL, Audience: i.Audience, Algorithms: i.Algorithms, GroupsClaim: i.GroupsClaim}
		for _, g := range i.Groups {
			match, err := parseMatch(g.Match)
			if err != nil {
				return nil, err
			}
			group := oidc.Group{Name: g.Name, Values: g.Values, Match: match, Grant: auth.Grant{Admin: g.Admin}}
			for _, s := range g.Scopes {
				scope, err := ParseScope(s)
				if err != nil {
					return nil, err
				}
				group.Grant.Scopes = append(group.Grant.Scopes, scope)
			}
			issuer.Groups = append(issuer.Groups, group)
		}
		cfg.Issuers = append(cfg.Issuers, issuer)
	}
	return oidc.New(cfg)
}
