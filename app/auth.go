package app

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/hint"
)

// openAuth opens tokens and keys. network connects to the issuers. Offline it is nil, and the configuration has no issuers.
func (p *parts) openAuth(ctx context.Context, network *egress.Client) error {
	c := p.config
	tokens, err := auth.OpenTokens(c.TokensFile())
	clients := &auth.Authenticator{Tokens: tokens, Anonymous: c.Anonymous.Scopes, Open: c.IsOpen}
	switch {
	case err == nil && !c.RequiresToken():
		p.operators = clients
		return nil
	case !c.RequiresToken(): // clients need no token
		logEvent(p.log, "tokens_failed", err)
		return nil
	case err != nil:
		return hint.With(err, "restore the backup; without the file, no token is valid")
	}
	if err := auth.MakeDir(filepath.Dir(c.TokensFile())); err != nil {
		return err
	}
	paths := auth.SignerConfig{Life: c.Auth.SignedPaths, Tokens: tokens}
	if len(c.Auth.Issuers) > 0 {
		verifier, err := newVerifier(c, network, p.observeIssuer)
		if err != nil {
			return err
		}
		clients.JWT, paths.Rules = verifier, verifier.Rules()
		verifier.Login(time.Now()) // starts the request to the issuer
		for _, issuer := range c.Auth.Issuers {
			for _, group := range issuer.Groups {
				paths.Groups = append(paths.Groups, group.Name)
			}
		}
	}
	if clients.Signer, err = auth.OpenSigner(ctx, c.KeyFile(), paths); err != nil {
		return hint.With(err, "without the file, modproxy creates another key; earlier signed paths are then invalid")
	}
	p.auth = clients
	return nil
}

// authReady returns the reason why clients cannot be identified, or nil.
func (p *parts) authReady() error {
	if p.auth == nil {
		return nil
	}
	if err := p.auth.Tokens.Check(); err != nil {
		return err
	}
	return p.auth.Signer.Check()
}

// NobodyHasToken reports whether clients need a token, but no valid token exists and no issuer is configured.
func (p *parts) NobodyHasToken() bool {
	if p.auth == nil || p.auth.JWT != nil {
		return false
	}
	list, _ := p.auth.Tokens.List() // without the list, no token is valid
	return !slices.ContainsFunc(list, func(t auth.Token) bool { return t.Live(time.Now()) })
}
