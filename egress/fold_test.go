package egress

import (
	"strings"
	"testing"
)

// FuzzReplaceFold: both texts may be any bytes, and only occurrences are replaced.
func FuzzReplaceFold(f *testing.F) {
	f.Add("text with SECRET-\xff in it", "secret-\xff")
	f.Add("aaaaaaaaaaaaaaaa", "AAAAAA")
	f.Add("\xe2\x84\xaaelvin", "kelvin")
	f.Fuzz(func(t *testing.T, text, old string) {
		if old == "" {
			return
		}
		got := replaceFold(text, old, "\x00")
		there := strings.Count(foldASCII(text), foldASCII(old))
		if want := len(text) - there*(len(old)-1); len(got) != want || there == 0 && got != text {
			t.Errorf("%q became %q for %q", text, got, old)
		}
	})
}
