package egress

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// secrets are the texts by which a server that was sent r might betray it: by
// redirecting to a URL that has one in it, or by an answer that is quoted for being
// malformed.
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

// secretsOf are the values in the query of u, as they stand there and decoded.
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

// leastSecret is the length of the shortest text that is hidden: what is shorter is
// in every other word.
const leastSecret = 6

// hidden is an error without the secrets that its text had.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// replaceFold puts new in place of every old, whatever the case of its ASCII
// letters. Both may be any bytes: servers choose them.
func replaceFold(text, old, new string) string {
	folded, old := foldASCII(text), foldASCII(old)
	var out strings.Builder
	for {
		i := strings.Index(folded, old)
		if i < 0 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:i])
		out.WriteString(new)
		text, folded = text[i+len(old):], folded[i+len(old):]
	}
}

// foldASCII is s in lower case, byte by byte: its length stays.
func foldASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// hide is err with none of the secrets in its text, however their letters are
// written: hostnames are shown in lower case.
func hide(err error, secrets []string) error {
	if err == nil {
		return nil
	}
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
