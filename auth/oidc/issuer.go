package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/modproxy/modproxy/auth"
)

// Issuer signs tokens. Its fields say which are good, and what they count for.
type Issuer struct {
	// URL is the issuer as its tokens name it, with https. Its keys are found by
	// OpenID Connect Discovery (openid-connect-discovery-1_0, section 4).
	URL string
	// Audience is this proxy, as it stands in tokens that are for it. Not empty:
	// a token that was given for another service would count here.
	Audience string
	// Algorithms are those that a signature may have; RS256 and ES256 if empty.
	Algorithms []string
	// GroupsClaim is the claim that Group.Values are looked for in: a string or a
	// list of strings. Claims inside other claims are not looked at.
	GroupsClaim string
	// Groups say what tokens count for. A token may be in many, and its grants
	// add up; in none it may read nothing.
	Groups []Group
}

// Group has the tokens with one of Values and all of Match. One of the two is not
// empty: else it would have all tokens of the issuer, and those of a public CI system
// are for everybody.
type Group struct {
	Name   string
	Values []string // of which the groups claim has at least one
	// Match is claims and the value that each must equal. A number or a boolean
	// is compared as JSON writes it.
	Match map[string]string
	Grant auth.Grant
}

// algorithms are those that may be configured: all have a public key.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
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
		if !slices.Contains(algorithms, jose.SignatureAlgorithm(name)) {
			return fmt.Errorf("algorithm %.40q: want one of %s", name, strings.ReplaceAll(strings.Trim(fmt.Sprint(algorithms), "[]"), " ", ", "))
		}
	}
	for _, g := range i.Groups {
		switch {
		case g.Name == "":
			return errors.New("a group needs a name")
		case len(g.Values) == 0 && len(g.Match) == 0:
			return fmt.Errorf("group %.80q: it would have every token of the issuer: want values or match", g.Name)
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

// registered are the claims with a meaning of their own: those of RFC 7519, section
// 4.1, and those that the verifier knows besides.
var registered = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "nonce", "at_hash", "_claim_names", "_claim_sources",
}

// check checks what the verifier does not.
func (c claims) check(now time.Time) error {
	for name := range c {
		// encoding/json takes whatever folds to a name for the field that it knows.
		for _, own := range registered {
			if name != own && strings.EqualFold(name, own) {
				return fmt.Errorf("claim %.40q in another spelling than its own", name)
			}
		}
	}
	if sub, ok := scalar(c["sub"]); !ok || sub == "" {
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

// scalar returns the value of a claim that is a string, a number or a boolean.
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

// values returns those of a claim that is one value or a list of them.
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

// grant returns what claims count for, and the groups that it comes from.
func (i *Issuer) grant(c claims) (groups []string, grant auth.Grant) {
	has := c.values(i.GroupsClaim)
	for _, g := range i.Groups {
		if g.has(c, has) {
			groups = append(groups, g.Name)
			grant.Scopes = append(grant.Scopes, g.Grant.Scopes...)
			grant.Admin = grant.Admin || g.Grant.Admin
		}
	}
	return groups, grant
}

func (g *Group) has(c claims, values []string) bool {
	for name, want := range g.Match {
		if got, ok := scalar(c[name]); !ok || got != want {
			return false
		}
	}
	return len(g.Values) == 0 || slices.ContainsFunc(g.Values, func(v string) bool { return slices.Contains(values, v) })
}
