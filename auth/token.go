package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// The text of a token is mp_{id}_{secret}; what is in braces is base32 in lower
// case, so that a double click selects it whole and a secret scanner finds it.
const (
	tokenPrefix = "mp_"
	idLength    = 16 // 80 random bits
	secretBytes = 32
	secretLen   = 52
	tokenLength = len(tokenPrefix) + idLength + 1 + secretLen
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is what is known of a token: not its text, which only its owner has.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: not
	Scopes  []Scope   `json:"scopes,omitempty"`
	Admin   bool      `json:"admin,omitempty"`
}

// Live reports whether the token is neither revoked nor expired at now.
func (t Token) Live(now time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || now.Before(t.Expires))
}

// TokenSpec is what a new token is to be.
type TokenSpec struct {
	// Name is for people: 1 to 64 letters, digits, -, _, . and @, and no other
	// token that is live has it.
	Name    string
	Expires time.Time // zero: never
	Scopes  []Scope   // what may be read
	Admin   bool
}

func (s TokenSpec) check(now time.Time) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: token: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
	}
	switch {
	case !isTokenName(s.Name):
		return bad("name %.80q: want 1 to 64 letters, digits, -, _, . and @", s.Name)
	case isID(s.Name):
		return bad("name %q looks like the id of a token", s.Name)
	case len(s.Scopes) == 0 && !s.Admin:
		return bad("it could do nothing: name a scope, * for every module")
	case len(s.Scopes) > maxScopes:
		return bad("more than %d scopes", maxScopes)
	case !s.Expires.IsZero() && !now.Before(s.Expires):
		return bad("it would have expired at %s", s.Expires.Format(time.RFC3339))
	}
	for _, scope := range s.Scopes {
		if !scope.valid() {
			return bad("scope %.100q", scope)
		}
	}
	return nil
}

func isTokenName(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.@", c) >= 0) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 64
}

func isID(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '2' <= c && c <= '7') {
			return false
		}
	}
	return len(s) == idLength
}

// newToken makes the text of a token, and what is kept of it.
func newToken() (text, id string, hash modproxy.Digest) {
	random := make([]byte, idLength*5/8+secretBytes)
	rand.Read(random) // never fails
	id = base32Lower.EncodeToString(random[:idLength*5/8])
	secret := base32Lower.EncodeToString(random[idLength*5/8:])
	return tokenPrefix + id + "_" + secret, id, sha256.Sum256([]byte(secret))
}

// looksLikeToken reports whether text claims to be a token of ours.
func looksLikeToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

// parseToken takes the text of a token apart: its id, and the hash of its secret.
func parseToken(text string) (id string, hash modproxy.Digest, ok bool) {
	if len(text) != tokenLength || !looksLikeToken(text) {
		return "", hash, false
	}
	id, rest := text[len(tokenPrefix):][:idLength], text[len(tokenPrefix)+idLength:]
	if rest[0] != '_' || !isID(id) {
		return "", hash, false
	}
	var secret [secretLen]byte // on the stack
	copy(secret[:], rest[1:])
	return id, sha256.Sum256(secret[:]), true
}

// IDOf makes the id of a principal out of what makes it unique: hidden, and in
// the form of the ids of tokens.
func IDOf(parts ...string) string {
	var text []byte
	for _, part := range parts {
		text = appendPart(text, part)
	}
	sum := sha256.Sum256(text)
	return base32Lower.EncodeToString(sum[:idLength*5/8])
}
