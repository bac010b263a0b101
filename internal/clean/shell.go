package clean

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ShellQuote returns s as one word of a POSIX shell, on one line and without characters that control a terminal. It writes a word with
// such characters as a call of printf. Use it
// for every part of a printed command: names may be untrusted, and names of directories may contain spaces.
func ShellQuote(s string) string {
	switch {
	case s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !isPlain(r) }):
		return s
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		var b strings.Builder
		for _, c := range []byte(s) {
			if c != '%' && c != '-' && isPlain(rune(c)) {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		return `"$(printf '` + b.String() + `')"`
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// isPlain reports whether r has no special meaning to a shell anywhere in an argument.
func isPlain(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
}
