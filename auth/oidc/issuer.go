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

// Issuer is who signs tokens, and what they count for.
type Issuer struct {
	// URL is the issuer as its tokens name it, with https. Its keys are found by
	// OpenID Connect Discovery (openid-connect-discovery-1_0, section 4).
	URL string
	// Audience is this proxy, as it stands in tokens that are for it. Not empty:
	// a token that was given for somebody else would count here.
	Audience string
	// Algorithms are those that a signature may have; RS256 and ES256 if there
	// are none.
	Algorithms []string
	// GroupsClaim is the claim that Group.Values are looked for in: a string or a
	// list of strings. Claims inside other claims are not looked at.
	GroupsClaim string
	// Groups say what tokens count for. A token may be in many, and its grants
	// add up; in none it may read nothing.
	Groups []Group
}

// Group is those whose tokens have one of Values and all of Match. One of the two
// is not empty: else it would be everybody who can get a token of the issuer,
// which with a public CI system is everybody.
type Group struct {
	Name   string
	Values []string // of which the groups claim has at least one
	// Match is claims and the value that each must equal. A number or a boolean
	// is compared as JSON writes it.
	Match map[string]string
	Grant auth.Grant
}

// allowed are the algorithms that may be configured. There is none that is
// verified with a secret, and "none" is not among them.
var allowed = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func (i *Issuer) algorithms() []string {
	if len(i.Algorithms) == 0 {
		return []string{"RS256", "ES256"}
	}
	return i.Algorithms
}

func (i *Issuer) check() error {
	if err := checkURL(i.URL); err != nil {
		return err
	}
	if strings.Contains(i.URL, "?") {
		return errors.New("want a URL without a query")
	}
	if i.Audience == "" {
		return errors.New("it needs an audience: the name of this proxy in its tokens")
	}
	for _, name := range i.Algorithms {
		if !slices.Contains(allowed, name) {
			return fmt.Errorf("algorithm %.40q: want one of %s", name, strings.Join(allowed, ", "))
		}
	}
	for _, g := range i.Groups {
		switch {
		case g.Name == "":
			return errors.New("a group needs a name")
		case len(g.Values) == 0 && len(g.Match) == 0:
			return fmt.Errorf("group %.80q: it would be everybody: want values or match", g.Name)
		case len(g.Values) > 0 && i.GroupsClaim == "":
			return fmt.Errorf("group %.80q: want the name of the claim that has the values", g.Name)
		case slices.Contains(g.Values, ""):
			return fmt.Errorf("group %.80q: a value is empty", g.Name)
		}
		for name, value := range g.Match {
			if name == "" || value == "" {
				return fmt.Errorf("group %.80q: match needs a claim and a value", g.Name)
			}
		}
	}
	return nil
}

// checkURL wants an https URL that names a host and no user.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Opaque != "" || strings.Contains(s, "#") {
		return errors.New("want an https URL without user and fragment")
	}
	return nil
}

// claims are what a token says, each as JSON.
type claims map[string]json.RawMessage

// registered are the claims that mean something to whoever reads a token: those of
// RFC 7519, section 4.1, and those that the verifier knows besides.
var registered = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "nonce", "at_hash", "_claim_names", "_claim_sources",
}

// check holds claims to what the verifier leaves open.
func (c claims) check(now time.Time) error {
	for name := range c {
		// encoding/json takes whatever folds to a name for the field that it knows.
		for _, own := range registered {
			if name != own && strings.EqualFold(name, own) {
				return fmt.Errorf("claim %.40q in another spelling than its own", name)
			}
		}
	}
	if sub, ok := c.text("sub"); !ok || sub == "" {
		return errors.New("it names no subject")
	}
	if raw, ok := c["nbf"]; ok && string(raw) != "null" {
		var nbf float64
		if err := json.Unmarshal(raw, &nbf); err != nil {
			return errors.New("nbf is not a number")
		}
		if nbf > float64(now.Add(skew).Unix()) {
			return errors.New("it is not yet good")
		}
	}
	return nil
}

// text is the value of a claim that is a string, a number or a boolean.
func (c claims) text(name string) (string, bool) { return scalar(c[name]) }

func scalar(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n' {
		return "", false
	}
	if raw[0] != '"' {
		return string(raw), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// values are those of a claim that is one value or a list of them.
func (c claims) values(name string) []string {
	list := []json.RawMessage{c[name]}
	if raw := c[name]; len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var values []string
	for _, raw := range list {
		if s, ok := scalar(raw); ok {
			values = append(values, s)
		}
	}
	return values
}

// grant is what claims count for, and the groups that it comes from.
func (i *Issuer) grant(c claims) (groups []string, grant auth.Grant) {
	has := c.values(i.GroupsClaim)
	for _, g := range i.Groups {
		if !g.has(c, has) {
			continue
		}
		groups = append(groups, g.Name)
		grant.Scopes = append(grant.Scopes, g.Grant.Scopes...)
		grant.Admin = grant.Admin || g.Grant.Admin
	}
	return groups, grant
}

func (g *Group) has(c claims, values []string) bool {
	for name, want := range g.Match {
		if got, ok := c.text(name); !ok || got != want {
			return false
		}
	}
	return len(g.Values) == 0 || slices.ContainsFunc(g.Values, func(v string) bool { return slices.Contains(values, v) })
}
