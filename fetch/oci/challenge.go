package oci

import (
	"net/http"
	"strings"
)

// challenge is a challenge of a WWW-Authenticate header.
type challenge struct {
	scheme     string            // in lower case
	parameters map[string]string // names in lower case; of two with one name, the first counts
}

// challengesOf reads the challenges of a header (https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1). It stops at the first text
// that is not one, and ignores challenges that have a token68 instead of parameters.
func challengesOf(h http.Header) (all []challenge) {
	for _, value := range h.Values("WWW-Authenticate") {
		rest := value
		for {
			rest = strings.TrimLeft(rest, ", \t")
			word, after := cutToken(rest)
			if word == "" {
				break
			}
			after = strings.TrimLeft(after, " \t")
			if !strings.HasPrefix(after, "=") { // a scheme
				all = append(all, challenge{strings.ToLower(word), map[string]string{}})
				rest = after
				continue
			}
			value, end := cutValue(strings.TrimLeft(after[1:], " \t"))
			name := strings.ToLower(word)
			if len(all) > 0 {
				if parameters := all[len(all)-1].parameters; parameters[name] == "" {
					parameters[name] = value
				}
			}
			rest = end
		}
	}
	return all
}

// cutToken splits s after the token at its beginning, which may be empty.
func cutToken(s string) (token, rest string) {
	isToken := func(r rune) bool {
		return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	rest = strings.TrimLeftFunc(s, isToken)
	return s[:len(s)-len(rest)], rest
}

// cutValue splits s after the token or quoted string at its beginning, and returns the string without quotes.
func cutValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		return cutToken(s)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:]
		case '\\':
			if i++; i == len(s) {
				return b.String(), ""
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), "" // the closing quote is missing
}
