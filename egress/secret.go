package egress

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
)

// Secret is a text that is never shown: printed, logged or encoded, it reads "[redacted]". Only Reveal returns it.
type Secret struct {
	text *string // a pointer, because fmt looks into unexported fields
}

const redacted = "[redacted]"

// NewSecret hides text. The zero Secret hides the empty text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text itself: for the wire, never for a person.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether the text is empty.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String returns "[redacted]".
func (s Secret) String() string { return redacted }

// Format writes "[redacted]" for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText returns "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText hides text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// secrets returns the texts by which a server that was sent r might betray it: in a redirect, or where it is quoted.
func (r Request) secrets() []string {
	var all []string
	for _, c := range r.Credentials {
		scheme, token, _ := strings.Cut(c.Authorization.Reveal(), " ")
		all = append(all, token)
		if plain, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			all = append(all, password)
		}
	}
	return all
}

// secretsOf returns the values in the query of u, as they stand there and decoded.
func secretsOf(u *url.URL) []string {
	var all []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		_, value, _ := strings.Cut(pair, "=")
		all = append(all, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			all = append(all, plain)
		}
	}
	return all
}

const leastSecret = 6 // the length of the shortest text that is hidden: shorter ones are in every other word

// hide returns err without the secrets in its text, whatever their case: hostnames are shown in lower case.
func hide(err error, secrets []string) error {
	text := err.Error()
	for _, secret := range secrets {
		if len(secret) >= leastSecret {
			text = replaceFold(text, secret, redacted)
		}
	}
	if text == err.Error() {
		return err
	}
	return &hidden{text, err}
}

// hidden is an error with another text.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// replaceFold replaces old by new, whatever the case of its ASCII letters. Both may be any bytes: servers choose them.
func replaceFold(text, old, new string) string {
	folded, old := foldASCII(text), foldASCII(old)
	for {
		i := strings.LastIndex(folded, old)
		if i < 0 {
			return text
		}
		text, folded = text[:i]+new+text[i+len(old):], folded[:i]
	}
}

// foldASCII returns s in lower case, byte by byte: its length stays.
func foldASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
