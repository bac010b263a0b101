package clean_test

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy/internal/clean"
)

func TestClean(t *testing.T) {
	for s, want := range map[string]string{
		"":                          "",
		"a\r\n\tb":                  "a\n\tb",
		"\x1b[31mred\x00\x07":       "[31mred",
		"\x7f\u0085\u009b31m":       "31m",
		"a\u202ab\u202ec":           "abc",
		"\u2066x\u2069\u200e\u200f": "x",
		"é 漢字 👩\u200d💻 \u00a0":      "é 漢字 👩\u200d💻 \u00a0",
	} {
		if got := clean.Prose(s); got != want {
			t.Errorf("Prose(%q) = %q, want %q", s, got, want)
		}
		line := s
		if want != s || strings.ContainsAny(s, "\n\t") {
			line = ""
		}
		if got := clean.Line(s); got != line {
			t.Errorf("Line(%q) = %q, want %q", s, got, line)
		}
	}
	if clean.Line(strings.Repeat("x", clean.MaxLine)) == "" || clean.Line(strings.Repeat("x", clean.MaxLine+1)) != "" {
		t.Error("a line is too long or too short")
	}
}
