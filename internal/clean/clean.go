// Package clean removes or escapes dangerous characters in untrusted text.
//
// [Line] and [Prose] are for texts in documents that other programs show: Line refuses a text with such characters, and Prose removes
// them. [Text] is for lines and lists that a program prints: it escapes characters. [Deep] and [Writer] apply Text to values and whole
// outputs, and [JSON] escapes in JSON.
//
//	fmt.Fprintln(os.Stderr, clean.Text(err.Error()))
//
// Invariant: a clean text moves no cursor except by the line breaks and tabs that Prose and Writer let through, does not change how
// other text is shown, and contains no invisible characters that affect others.
package clean

import (
	"strings"
	"unicode"
)

// MaxLine is the maximum length of a line in bytes.
const MaxLine = 1 << 10

// Line returns s, or an empty string if s has more than one line, control characters, direction marks, or more than
// [MaxLine] bytes.
func Line(s string) string {
	if len(s) > MaxLine || strings.ContainsFunc(s, controls) {
		return ""
	}
	return s
}

// Prose returns s without control characters and direction marks, except line breaks and tabs.
func Prose(s string) string {
	return strings.Map(func(r rune) rune {
		if controls(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// controls reports whether r is invisible but affects how other characters are shown, such as their direction.
func controls(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
