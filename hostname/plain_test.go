package hostname

import (
	"strings"
	"testing"

	svchost "github.com/hashicorp/terraform-svchost"
)

// If isPlain reports true, the clients' code normalises and displays the name unchanged.
func FuzzIsPlain(f *testing.F) {
	for _, s := range []string{"registry.terraform.io", "127.0.0.1:8080", "a-b.c:65535", "a--b.c", "localhost", "1.2", "a.b:443", "a.b:0443", strings.Repeat("a.", 126) + "a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !isPlain(s) {
			return
		}
		if got, err := normalise(s); err != nil || got != s {
			t.Fatalf("%q is not normalised: %q, %v", s, got, err)
		}
		if shown := svchost.ForDisplay(s); shown != s {
			t.Fatalf("%q is shown as %q", s, shown)
		}
	})
}
