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

// The text of a token is mp_{id}_{secret}; what is in braces is base32 in lower case, so that a double click
// selects it whole and a secret scanner finds it.
const (
	tokenPrefix = "mp_"
	idLength    = 16 // 80 random bits
	idBytes     = idLength * 5 / 8
	secretBytes = 32
	secretLen   = 52
	tokenLength = len(tokenPrefix) + idLength + 1 + secretLen
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is what is kept of a token; its text is not. The creator chooses the name, when it expires, and what it
// may do.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"` // for people: 1 to 64 letters, digits, -, _, . and @; no other token that is live has it
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: not
	Scopes  []Scope   `json:"scopes,omitempty"` // whose modules may be read
	Admin   bool      `json:"admin,omitempty"`
}

// Live reports whether the token is neither revoked nor expired at now.
func (t Token) Live(now time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || now.Before(t.Expires))
}

// ended returns when a token that is not live ended.
func (t Token) ended() time.Time {
	if t.Revoked.IsZero() || !t.Expires.IsZero() && t.Expires.Before(t.Revoked) {
		return t.Expires
	}
	return t.Revoked
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@"

// check checks what the creator of a token chooses.
func (t Token) check(now time.Time) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: token: "+format, append([]any{modproxy.ErrInvalid}, args...)...)
	}
	switch {
	case t.Name == "" || len(t.Name) > 64 || strings.Trim(t.Name, nameLetters) != "":
		return bad("name %.80q: want 1 to 64 letters, digits, -, _, . and @", t.Name)
	case isID(t.Name):
		return bad("name %q looks like the id of a token", t.Name)
	case len(t.Scopes) == 0 && !t.Admin:
		return bad("it could do nothing: name a scope, * for every module")
	case len(t.Scopes) > maxScopes:
		return bad("more than %d scopes", maxScopes)
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return bad("it would have expired at %s", t.Expires.Format(time.RFC3339))
	}
	for _, scope := range t.Scopes {
		if !scope.valid() {
			return bad("scope %.100q", scope)
		}
	}
	return nil
}

func isID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// newToken makes the text of a token, and what is kept of it.
func newToken() (text, id string, hash modproxy.Digest) {
	random := make([]byte, idBytes+secretBytes)
	rand.Read(random) // never fails
	id = base32Lower.EncodeToString(random[:idBytes])
	secret := base32Lower.EncodeToString(random[idBytes:])
	return tokenPrefix + id + "_" + secret, id, sha256.Sum256([]byte(secret))
}

// parseToken returns the id in the text of a token, and the hash of its secret.
func parseToken(text string) (id string, hash modproxy.Digest, ok bool) {
	if len(text) != tokenLength || !strings.HasPrefix(text, tokenPrefix) {
		return "", hash, false
	}
	id, rest := text[len(tokenPrefix):][:idLength], text[len(tokenPrefix)+idLength:]
	return id, sha256.Sum256([]byte(rest[1:])), rest[0] == '_' && isID(id)
}

// IDOf returns the id of a principal, in the form of the ids of tokens. It is made of what makes the principal
// unique, and hides that.
func IDOf(parts ...string) string {
	var text []byte
	for _, part := range parts {
		text = appendPart(text, part)
	}
	sum := sha256.Sum256(text)
	return base32Lower.EncodeToString(sum[:idBytes])
}
