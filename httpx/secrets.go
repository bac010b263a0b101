package httpx

import (
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/modproxy/modproxy/auth"
)

var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// quoted matches characters that are not shown as Go quotes them in errors.
var quoted = regexp.MustCompile(`\\+(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[abfnrtv])`)

// maxEscaped is how many times a text may be percent-encoded. A text with more layers counts as one with a token.
const maxEscaped = 8

// HasToken reports whether there is a token in text, as it is or hidden by escapes or invisible characters.
func HasToken(text string) bool { return auth.Redact(text) != text || hidesToken(text) }

// isVisible reports whether r is a visible character of ASCII, or a blank: tokens have no others.
func isVisible(r rune) bool { return ' ' <= r && r <= '~' }

// hidesToken reports whether a token appears in text once characters that tokens do not have are removed, or percent-encoding is
// decoded, any number of times.
func hidesToken(text string) bool {
	if !strings.ContainsAny(text, `%\`) && !strings.ContainsFunc(text, func(r rune) bool { return !isVisible(r) }) {
		return false
	}
	for range maxEscaped {
		plain := strings.Map(func(r rune) rune {
			if !isVisible(r) {
				return -1
			}
			return r
		}, quoted.ReplaceAllString(text, ""))
		if auth.Redact(plain) != plain || auth.Redact(text) != text {
			return true
		}
		decoded := escape.ReplaceAllStringFunc(text, func(s string) string {
			b, _ := hex.DecodeString(s[1:])
			return string(b)
		})
		if decoded == text {
			return false
		}
		text = decoded
	}
	return true
}
