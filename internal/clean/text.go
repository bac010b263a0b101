package clean

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s on one line. It escapes everything that controls a terminal or is invisible: line breaks, control
// characters, direction marks, and bytes that are not UTF-8. Use it for all untrusted parts of lines that a program
// prints. Text does not change its own results.
func Text(s string) string {
	if isText(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(r)) {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(escaped(r))
		}
	}
	return b.String()
}

// isText reports whether Text would not change s.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func escaped(r rune) string {
	if unicode.IsPrint(r) {
		return string(r)
	}
	return strings.Trim(strconv.QuoteRune(r), "'")
}

// JSON returns a JSON text in which characters that control a terminal or are invisible are escaped. In valid JSON such
// characters occur only in strings. JSON does not check that text is valid.
func JSON(text []byte) []byte {
	if isText(string(text)) {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case unicode.IsPrint(r), r == '\n', r == '\t':
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}

// Writer writes texts of several lines to another writer, and applies [Text] to each line, without its tabs. It is the last guard of a
// program that prints, and no replacement for Text: it lets line breaks through, so that untrusted text could forge a line. A program
// calls Flush before it ends. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the beginning of an incomplete character
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.rest, p...)
	end := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				end = at
			}
			break
		}
	}
	w.rest = append([]byte(nil), text[end:]...)
	return len(p), w.write(text[:end])
}

// Flush writes the beginning of an incomplete character, if there is one.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.rest
	w.rest = nil
	return w.write(rest)
}

func (w *Writer) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	var b strings.Builder
	for i, line := range strings.Split(string(p), "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, part := range strings.Split(line, "\t") {
			if j > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(Text(part))
		}
	}
	_, err := io.WriteString(w.w, b.String())
	return err
}
