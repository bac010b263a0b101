package app

import (
	"slices"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
)

// LoginOf requests the login endpoints of the issuer that has a login. If no issuer has a login, it returns nil.
func LoginOf(c *config.Config) (*auth.Login, error) {
	if !slices.ContainsFunc(c.Auth.Issuers, func(i oidc.Issuer) bool { return i.Login.IsSet() }) {
		return nil, nil
	}
	network, err := (&parts{config: c}).newEgress(nil)
	if err != nil {
		return nil, err
	}
	asked := make(chan error, 1)
	verifier, err := newVerifier(c, network, func(_ string, err error) { asked <- err })
	if err != nil {
		return nil, err
	}
	verifier.Login(time.Now())
	err = <-asked
	return verifier.Login(time.Now()), err
}

// newVerifier returns the verifier of the tokens of the issuers. It calls observe after each request to an issuer.
func newVerifier(c *config.Config, network *egress.Client, observe func(issuer string, err error)) (*oidc.Verifier, error) {
	return oidc.New(oidc.Config{Issuers: c.Auth.Issuers, Transport: network.Transport(oidc.MaxDocument), Observe: observe})
}
