// Package clean cleans texts of strangers for programs that print them.
//
// [Line] and [Prose] are for documents: they leave characters out. [Text] is for lines that a program prints, and for lists that
// it writes: it escapes characters. [Deep], [JSON] and [Writer] apply it to values, documents and whole outputs.
//
// What is clean moves no cursor, changes no other text, and reads as it is.
package clean

import (
	"strings"
	"unicode"
)

// MaxLine is how many bytes a line has at most.
const MaxLine = 1 << 10

// Line returns s, or nothing if it is more than a line, or too long.
func Line(s string) string {
	if len(s) > MaxLine || strings.ContainsFunc(s, controls) {
		return ""
	}
	return s
}

// Prose returns s without the characters that control how text is shown, other than ends of lines and tabs.
func Prose(s string) string {
	return strings.Map(func(r rune) rune {
		if controls(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// controls reports whether r is not shown but changes how others are, such as in which direction they are written.
func controls(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
