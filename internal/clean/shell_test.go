package clean_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/internal/clean"
)

func TestShellQuote(t *testing.T) {
	for _, s := range []string{
		"modules/vpc", "h1:AbC+/=", "", " ", "a b", "it's", `"$(id)"`, "x;touch${IFS}y;#", "`id`", `\`, "*", "~", "~root", "!!", "-n", "{a,b}",
		"ü", "a\nb", "\x1b[2K", "%s\r%d", "\\\t'", "\xff'", "\u202eabc", "a\u00a0b",
	} {
		quoted := clean.ShellQuote(s)
		if strings.ContainsAny(quoted, "\n\r\t\x1b\u202e") || strings.Contains(quoted, "\xff") {
			t.Errorf("%q becomes %q", s, quoted)
		}
		got, err := exec.Command("sh", "-c", "printf %s. "+quoted).Output()
		if err != nil || string(got) != s+"." {
			t.Errorf("%q becomes %s, which a shell reads as %q (%v)", s, quoted, got, err)
		}
	}
}

func FuzzShellQuote(f *testing.F) {
	f.Add("x;touch${IFS}y;#")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) || strings.HasSuffix(s, "\n") {
			return // arguments cannot contain NUL, and $(…) removes trailing line breaks
		}
		got, err := exec.Command("sh", "-c", "printf %s. "+clean.ShellQuote(s)).Output()
		if err != nil || string(got) != s+"." {
			t.Errorf("%q becomes %s, which a shell reads as %q (%v)", s, clean.ShellQuote(s), got, err)
		}
	})
}
