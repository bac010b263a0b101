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

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// Issuer signs tokens that this proxy accepts.
type Issuer struct {
	// URL is the issuer as its tokens name it, with https.
	URL string `yaml:"url" example:"https://gitlab.example.com" check:"unique"`
	// Audience is the name of this proxy in tokens that are meant for it.
	Audience string `yaml:"audience" example:"https://modules.example.com"`
	// Algorithms are the accepted signature algorithms. Empty: RS256 and ES256.
	Algorithms []string `yaml:"algorithms"`
	// GroupsClaim is the claim that contains the values of groups.
	GroupsClaim string `yaml:"groups_claim"`
	// Groups are groups of tokens, with the rights of each. A token in several groups has the rights of all of them. A token in no
	// group has no rights of its own: it is valid, and may read only what needs no token (anonymous).
	Groups []Group `yaml:"groups"`
	// Login lets people log in at the issuer with "terraform login" and "tofu login". At most one issuer can have it.
	Login Login `yaml:"login" json:"-"` // not part of Verifier.Rules
}

// Group contains the tokens that have one of Values and all of Match. At least one of the two must be set. Values and claims are
// compared exactly, as texts: a number or boolean of the token has the text that it has as JSON.
type Group struct {
	// Name is the name of the group in logs and in the groups of policy rules. Rules refer to static tokens by name in the same
	// way: a rule for a name applies to the token and to the group.
	Name string `yaml:"name" example:"infrastructure"`
	// Values are values of the groups claim, which is a single value or an array. A token of the group has at least one of them.
	Values []string `yaml:"values"`
	// Match are claims with their required values: CLAIM=VALUE. A claim with an array or an object never matches.
	Match []string `yaml:"match" example:"[namespace_path=acme, ref_protected=true]"`
	// Scopes are the modules that the group may read: {host}/{namespace}, where either part may be * as a whole; * for
	// every module.
	Scopes []auth.Scope `yaml:"scopes" example:"[registry.terraform.io/*, registry.acme.example/acme]"`
	// Admin allows operating the proxy and reading its metrics. It does not make any module readable.
	Admin bool `yaml:"admin"`
	// Refresh allows "modproxy refresh" for the modules of the scopes, for example for a job that publishes them.
	Refresh bool `yaml:"refresh"`
}

// algorithms are the configurable ones: all use a public key.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Check returns an error if the issuer is misconfigured: [modproxy.ErrInvalid].
func (i *Issuer) Check() error {
	err := checkURL(i.URL)
	switch {
	case err != nil:
	case strings.Contains(i.URL, "?"):
		err = errors.New("want a URL without a query")
	case i.Audience == "": // without it, tokens for other services would be accepted
		err = errors.New("it needs an audience: the name of this proxy in its tokens")
	}
	for _, name := range i.Algorithms {
		if err == nil && !slices.Contains(algorithms, jose.SignatureAlgorithm(name)) {
			known := strings.ReplaceAll(strings.Trim(fmt.Sprint(algorithms), "[]"), " ", ", ")
			err = fmt.Errorf("algorithm %.40q: want one of %s", name, known)
		}
	}
	for _, g := range i.Groups {
		if wrong := g.wrong(i.GroupsClaim); err == nil && wrong != "" {
			err = fmt.Errorf("group %.80q: %s", g.Name, wrong)
		}
	}
	if wrong := i.Login.wrong(); err == nil && wrong != "" {
		err = fmt.Errorf("login: %s", wrong)
	}
	if err != nil {
		return fmt.Errorf("%w: issuer %.200q: %w", modproxy.ErrInvalid, i.URL, err)
	}
	return nil
}

// wrong describes a mistake in the group, or returns an empty string. claim is the name of the groups claim.
func (g *Group) wrong(claim string) string {
	seen := map[string]bool{}
	for _, pair := range g.Match {
		name, value, _ := strings.Cut(pair, "=")
		if name == "" || value == "" {
			return fmt.Sprintf("match: want claim=value, not %.100q", pair)
		}
		if seen[name] {
			return fmt.Sprintf("match: the claim %.100q appears twice, and has one value", name)
		}
		seen[name] = true
	}
	switch {
	case g.Name == "":
		return "it needs a name"
	case len(g.Scopes) == 0 && !g.Admin:
		return "it allows nothing: want scopes or admin: true"
	case len(g.Values) == 0 && len(g.Match) == 0: // public CI systems issue tokens to everyone
		return "it would have every token of the issuer: want values or match"
	case len(g.Values) > 0 && claim == "":
		return "want the name of the claim that has the values"
	case slices.Contains(g.Values, ""):
		return "a value is empty"
	}
	return ""
}

// checkURL returns an error unless s is an https URL with a host and without a user.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Opaque != "" || strings.Contains(s, "#") {
		return errors.New("want an https URL without user and fragment")
	}
	return nil
}

// claims are the claims of a token, each as JSON.
type claims map[string]json.RawMessage

// registered are the claims of RFC 7519, section 4.1, and others that the verifier knows.
var registered = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "nonce", "at_hash", "_claim_names", "_claim_sources",
}

// check checks the claims that the verifier of package oidc does not check.
func (c claims) check(now time.Time) error {
	for name := range c { // encoding/json matches field names regardless of case
		if slices.ContainsFunc(registered, func(own string) bool { return name != own && strings.EqualFold(name, own) }) {
			return fmt.Errorf("claim %.40q in another spelling than its own", name)
		}
	}
	if sub, ok := scalar(c["sub"]); !ok || sub == "" {
		return errors.New("it names no subject")
	}
	var nbf float64 // remains 0 for null
	if raw, ok := c["nbf"]; ok && json.Unmarshal(raw, &nbf) != nil {
		return errors.New("nbf is not a number")
	}
	if nbf > float64(now.Add(skew).Unix()) {
		return errors.New("it is not yet good")
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

// values returns the values of a claim that is a single value or a list.
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

// grant returns the rights that claims have by the groups of the issuer, and the names of these groups.
func (i *Issuer) grant(c claims) (groups []string, grant auth.Grant) {
	has := c.values(i.GroupsClaim)
	for _, g := range i.Groups {
		misses := func(pair string) bool {
			name, want, _ := strings.Cut(pair, "=")
			got, ok := scalar(c[name])
			return !ok || got != want
		}
		of := func(value string) bool { return slices.Contains(has, value) }
		if !slices.ContainsFunc(g.Match, misses) && (len(g.Values) == 0 || slices.ContainsFunc(g.Values, of)) {
			groups = append(groups, g.Name)
			grant.Scopes = append(grant.Scopes, g.Scopes...)
			grant.Admin, grant.Refresh = grant.Admin || g.Admin, grant.Refresh || g.Refresh
		}
	}
	return groups, grant
}
