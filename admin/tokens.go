package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// Tokens stores the tokens of clients.
type Tokens interface {
	List() ([]auth.Token, error)
	// Create adds a token with the name, expiry and rights of spec, and returns its text, which is not stored.
	Create(ctx context.Context, spec auth.Token) (text string, made auth.Token, err error)
	Revoke(ctx context.Context, idOrName string) (auth.Token, error)
}

// A TokenRequest has the fields of a new token.
type TokenRequest struct {
	Name    string       `json:"name"`
	Expires time.Time    `json:"expires,omitzero"` // zero if it never expires
	Scopes  []auth.Scope `json:"scopes,omitempty"`
	Admin   bool         `json:"admin,omitempty"`
	Refresh bool         `json:"refresh,omitempty"`
}

// A CreatedToken is a new token with its text.
type CreatedToken struct {
	Text string `json:"token"` // secret
	auth.Token
}

// A RevokeRequest names a token.
type RevokeRequest struct {
	Token string `json:"token"` // the id of the token, or the name of a valid token; not its text
}

func (s *Server) listTokens(_ context.Context, _ none, each func(auth.Token)) (done none, err error) {
	if s.Tokens == nil {
		return done, errNoTokens
	}
	list, err := s.Tokens.List()
	for _, t := range list {
		each(t)
	}
	return done, err
}

func (s *Server) createToken(ctx context.Context, in TokenRequest, _ func(none)) (out CreatedToken, err error) {
	if s.Tokens == nil {
		return out, errNoTokens
	}
	spec := auth.Token{Name: in.Name, Expires: in.Expires, Scopes: in.Scopes, Admin: in.Admin, Refresh: in.Refresh}
	if err := auth.PrincipalOf(ctx).MayCreate(spec); err != nil {
		return out, err
	}
	out.Text, out.Token, err = s.Tokens.Create(ctx, spec)
	return out, err
}

func (s *Server) revokeToken(ctx context.Context, in RevokeRequest, _ func(none)) (auth.Token, error) {
	if s.Tokens == nil {
		return auth.Token{}, errNoTokens
	}
	revoked, err := s.Tokens.Revoke(ctx, in.Token)
	if errors.Is(err, modproxy.ErrNotFound) { // the text of ErrNotFound is about a missing module
		err = absent(err.Error())
	}
	return revoked, err
}

var errNoTokens = fmt.Errorf("%w: the tokens of this proxy cannot be read", modproxy.ErrUnavailable)
