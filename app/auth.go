package app

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/auth/oidc"
	"github.com/modproxy/modproxy/internal/hint"
)

// maxIssuerAnswer bounds what an issuer says of itself and its keys, in bytes.
const maxIssuerAnswer = 1 << 20

// newAuth puts the layer on top that answers clients only what they may read, if they have to show a token.
func (a *App) newAuth(ctx context.Context) error {
	c := a.config
	if !c.RequiresToken() {
		if tokens, err := auth.OpenTokens(c.TokensFile()); err != nil {
			a.log.Warn("tokens_failed", zap.Error(err)) // clients need none
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
		verifier, err := oidc.New(oidc.Config{Issuers: c.Auth.Issuers, Transport: a.egress.Transport(maxIssuerAnswer), Observe: a.observeIssuer})
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

// authReady returns what keeps the proxy from letting clients in.
func (a *App) authReady() error {
	if a.auth == nil {
		return nil
	}
	return cmp.Or(a.auth.Tokens.Check(), a.auth.Signer.Check())
}

// NobodyHasToken reports whether clients need a token and nobody can have one: none was made, and no issuer
// makes any.
func (a *App) NobodyHasToken() bool {
	if a.auth == nil || a.auth.JWT != nil {
		return false
	}
	list, _ := a.auth.Tokens.List() // without the list, nobody is let in
	return !slices.ContainsFunc(list, func(t auth.Token) bool { return t.Live(time.Now()) })
}
