package app

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
)

// maxIssuerAnswer bounds what an issuer says of itself and its keys, in bytes.
const maxIssuerAnswer = 1 << 20

// newAuth puts the layer on top that answers clients only what they may read, if
// they are asked who they are.
func (a *App) newAuth(ctx context.Context, c *config.Config, listening net.Addr) error {
	if !c.RequiresToken() {
		if tokens, err := auth.OpenTokens(c.TokensFile()); err != nil {
			a.log.Warn("tokens_failed", zap.Error(err)) // who reads is not asked for one
		} else {
			a.operators = &auth.Authenticator{Tokens: tokens}
		}
		return nil
	}
	if err := auth.MakeDir(filepath.Dir(c.TokensFile())); err != nil {
		return err
	}
	tokens, err := auth.OpenTokens(c.TokensFile())
	if err != nil {
		return hint.With(err, "put the backup back; without the file there are no tokens, and none is good")
	}
	who := &auth.Authenticator{Tokens: tokens}
	paths := auth.SignerConfig{Life: c.Auth.SignedPaths, Tokens: tokens}
	if len(c.Auth.Issuers) > 0 {
		transport, err := a.toIssuers(c, listening)
		if err != nil {
			return err
		}
		issuers, err := c.Auth.OIDC()
		if err != nil {
			return err
		}
		verifier, err := oidc.New(oidc.Config{Issuers: issuers, Transport: transport, Observe: a.observeIssuer})
		if err != nil {
			return err
		}
		who.JWT, paths.Rules = verifier, verifier.Rules()
	}
	if who.Signer, err = auth.OpenSigner(ctx, c.KeyFile(), paths); err != nil {
		return hint.With(err, "without the file modproxy makes another; then paths that were signed before are not good")
	}
	a.auth = who
	a.Registry = &auth.Registry{Next: a.Registry}
	return nil
}

// toIssuers asks issuers for their keys, offline too: they are none of those that
// modules come from.
func (a *App) toIssuers(c *config.Config, listening net.Addr) (http.RoundTripper, error) {
	if a.egress == nil {
		var err error
		if a.egress, err = a.newEgress(c, listening); err != nil {
			return nil, err
		}
	}
	return a.egress.Transport(maxIssuerAnswer), nil
}

// authReady is what hinders the proxy from letting clients in.
func (a *App) authReady() error {
	if a.auth == nil {
		return nil
	}
	if err := a.auth.Tokens.Check(); err != nil {
		return err
	}
	return a.auth.Signer.Check()
}

// NobodyHasToken reports whether clients need a token and nobody can have one: none
// was made, and no issuer makes any.
func (a *App) NobodyHasToken() bool {
	if a.auth == nil || a.auth.JWT != nil {
		return false
	}
	list, err := a.auth.Tokens.List()
	if err != nil {
		return true
	}
	now := time.Now()
	for _, t := range list {
		if t.Live(now) {
			return false
		}
	}
	return true
}
