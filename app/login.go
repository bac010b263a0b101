package app

import (
	"slices"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
	"github.com/modproxy/modproxy/config"
)

// LoginOf asks the issuer that has a login where people log in. Without one, it returns nil.
func LoginOf(c *config.Config) (*auth.Login, error) {
	if !slices.ContainsFunc(c.Auth.Issuers, func(i oidc.Issuer) bool { return i.Login.IsSet() }) {
		return nil, nil
	}
	a := &App{config: c}
	if err := a.openEgress(nil); err != nil {
		return nil, err
	}
	asked := make(chan error, 1)
	verifier, err := a.newVerifier(func(_ string, err error) { asked <- err })
	if err != nil {
		return nil, err
	}
	verifier.Login(time.Now())
	err = <-asked
	return verifier.Login(time.Now()), err
}

// newVerifier makes what verifies the tokens of the issuers, and tells observe of each attempt to ask one.
func (a *App) newVerifier(observe func(issuer string, err error)) (*oidc.Verifier, error) {
	return oidc.New(oidc.Config{Issuers: a.config.Auth.Issuers, Transport: a.egress.Transport(oidc.MaxDocument), Observe: observe})
}
