package egress

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
)

// Secret is a text that is never shown: printed, logged or encoded, it reads "[redacted]". Only Reveal returns it.
type Secret struct {
	text *string // a pointer, because fmt reads unexported fields
}

const redacted = "[redacted]"

// NewSecret returns a Secret with text. The zero Secret has an empty text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text. Use it only for sending, never for output.
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

// MarshalText returns "[redacted]", so that an encoded Secret cannot be decoded again.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText stores text as it is.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// secrets returns the texts that a server could reveal after receiving r: in a redirect, or quoted in an error.
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

// secretsOf returns the values in the query of u, both encoded and decoded.
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

// Hide returns err without the credentials of r in its text. Use it for errors that quote what a server answered to r.
func (r Request) Hide(err error) error {
	if err == nil {
		return nil
	}
	return hide(err, r.secrets())
}

const leastSecret = 6 // bytes; shorter texts are not hidden, because they occur in ordinary words

// hide returns err without the secrets in its text. It ignores case, because hostnames appear in lower case.
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

// hidden is an error with a replaced text.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// replaceFold replaces old by new, ignoring the case of ASCII letters. Both may be any bytes: servers choose them.
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

// foldASCII returns s with ASCII letters in lower case, byte by byte, so that its length stays the same.
func foldASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
