package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// visit is a sequence of requests to one repository.
type visit struct {
	*Getter
	reference
	source        fetch.Source
	credential    fetch.Credential // for the registry; may be zero
	authorization egress.Secret    // the Authorization header for the registry; zero until the registry requires one
	sent          egress.Request   // has all credentials that were sent
	withheld      string           // the host of a token service that does not receive the credential; empty without one
}

const (
	maxRedirects = 10
	maxRequests  = 10 // for a source without a budget
	maxToken     = 64 << 10
)

// visit returns a visit of the repository of s.
func (g *Getter) visit(s fetch.Source) (*visit, error) {
	r, err := parse(s)
	if err != nil {
		return nil, err
	}
	s.Budget = cmp.Or(s.Budget, egress.NewBudget(maxRequests))
	return &visit{Getter: g, reference: r, source: s, credential: g.Credentials.For(s.Module).Of(r.server())}, nil
}

// failed returns err about what, without the credentials that servers received: they may repeat them.
func (v *visit) failed(what string, err error) error {
	return v.sent.Hide(fmt.Errorf("%s: %w", what, err))
}

// send sends one request with a credential, unless authorization is zero.
func (v *visit) send(ctx context.Context, r egress.Request, origin string, authorization egress.Secret) (*http.Response, error) {
	r.Budget, r.Attempts, r.Credentials, r.CheckRedirect = v.source.Budget, 2, nil, v.source.Mirrors.CheckRedirect
	if !authorization.IsZero() {
		r.Credentials = []egress.Credential{{Origin: origin, Authorization: authorization}}
		v.sent.Credentials = append(v.sent.Credentials, r.Credentials...)
	}
	return v.Egress.Get(ctx, r)
}

// origin returns the origin of the registry. Its credential and tokens are sent only there.
func (v *visit) origin() string { return "https://" + v.server() }

// get sends one request. An unexpected answer is an error. If the registry asks for authentication, get authenticates and repeats
// the request once. again reports whether a retry may succeed.
func (v *visit) get(ctx context.Context, r egress.Request) (res *http.Response, again bool, err error) {
	r.Redirects = maxRedirects
	for asked := false; ; asked = true {
		if res, err = v.send(ctx, r, v.origin(), v.authorization); err != nil {
			again, err = fetch.Failed(v.source.Budget, egress.MayPass(err), fetch.Outgoing(err))
			return nil, again, err
		}
		if res.StatusCode == http.StatusOK {
			return res, false, nil
		}
		res.Body.Close()
		if asked || res.StatusCode != http.StatusUnauthorized || egress.Origin(res.Request.URL) != v.origin() {
			again, err = v.refused(res)
			return nil, again, err
		}
		if again, err = v.authenticate(ctx, challengesOf(res.Header)); err != nil {
			return nil, again, err
		}
	}
}

// refused returns the error for an answer with an unexpected status, and whether a retry may succeed.
func (v *visit) refused(res *http.Response) (again bool, err error) {
	return fetch.Failed(v.source.Budget, fetch.MayPass(res.StatusCode), fetch.Refusal(res, res.Request.URL.Host, v.advice()))
}

// advice tells the operator how to get access to the repository.
func (v *visit) advice() string {
	switch {
	case v.credential.Password.IsZero():
		return " (operator: set credentials[] for " + v.server() + ")"
	case v.withheld != "":
		return " (operator: the token service of " + v.server() + " is at " + v.withheld + "; if it may have the credential, set token_host)"
	}
	return " (operator: check credentials[] for " + v.server() + ")"
}

// authenticate answers the challenges of the registry: with a token if it names a token service, or else with the credential.
func (v *visit) authenticate(ctx context.Context, all []challenge) (again bool, err error) {
	var basic egress.Secret
	if !v.credential.Password.IsZero() {
		basic = fetch.Basic(v.credential.Username, v.credential.Password.Reveal())
	}
	hasBasic := false
	for _, c := range all {
		switch c.scheme {
		case "bearer":
			return v.token(ctx, c.parameters, basic)
		case "basic":
			hasBasic = true
		}
	}
	switch {
	case !hasBasic:
		err = fmt.Errorf("%w: %s answered 401, and asks for neither Basic nor Bearer authentication", modproxy.ErrDenied, v.server())
	case basic.IsZero():
		err = fmt.Errorf("%w: %s answered 401%s", modproxy.ErrDenied, v.server(), v.advice())
	}
	v.authorization = basic
	return false, err
}

// tokenPattern matches tokens that a header can contain.
var tokenPattern = regexp.MustCompile(`^[\x21-\x7e]+$`)

// token requests a token from the token service that the registry names. The service receives the credential if it is at the registry's
// own origin, or at the credential's TokenHost. Another registry could otherwise get tokens for this one.
func (v *visit) token(ctx context.Context, parameters map[string]string, basic egress.Secret) (again bool, err error) {
	realm, err := url.Parse(parameters["realm"])
	if err != nil || realm.Scheme != "https" || egress.Origin(realm) == "" {
		return false, fmt.Errorf("%w: %s names a token service that is not an https URL", modproxy.ErrInvalid, v.server())
	}
	query := realm.Query()
	if service := parameters["service"]; service != "" {
		query.Set("service", service)
	}
	for _, scope := range strings.Fields(cmp.Or(parameters["scope"], "repository:"+v.name+":pull")) {
		query.Add("scope", scope)
	}
	realm.RawQuery = query.Encode()
	origin := egress.Origin(realm)
	isOwn := origin == v.origin() || v.credential.TokenHost != "" && origin == "https://"+v.credential.TokenHost
	v.withheld = ""
	if !isOwn {
		v.withheld, basic = realm.Host, egress.Secret{}
	}
	res, err := v.send(ctx, egress.Request{URL: realm.String(), MaxBytes: maxToken}, origin, basic)
	if err != nil {
		return fetch.Failed(v.source.Budget, egress.MayPass(err), fetch.Outgoing(err))
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone { // says nothing about the repository
		return false, &fetch.Answered{Where: origin, Status: res.Status, Code: res.StatusCode, Host: realm.Host}
	}
	if res.StatusCode != http.StatusOK {
		return v.refused(res)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fetch.Failed(v.source.Budget, egress.MayPass(err), fetch.Outgoing(err))
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	err = json.Unmarshal(body, &answer)
	token := cmp.Or(answer.Token, answer.AccessToken)
	if err != nil || !tokenPattern.MatchString(token) {
		return false, fmt.Errorf("%w: the token service %s answered without a token", modproxy.ErrInvalid, origin)
	}
	v.authorization = egress.NewSecret("Bearer " + token)
	return false, nil
}
