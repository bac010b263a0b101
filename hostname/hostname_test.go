package hostname_test

import (
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"registry.terraform.io":      "registry.terraform.io",
		"Registry.Terraform.IO":      "registry.terraform.io",
		"registry.terraform.io:443":  "registry.terraform.io",
		"registry.example.com:8443":  "registry.example.com:8443",
		"127.0.0.1:8080":             "127.0.0.1:8080",
		"bücher.example":             "xn--bcher-kva.example",
		"BÜCHER.example":             "xn--bcher-kva.example",
		"испытание.com":              "xn--80akhbyknj4f.com",
		"":                           "",
		"xn--bcher-kva.example":      "", // punycode as typed
		"registry..example.com":      "",
		"registry.example.com.":      "",
		"registry.example.com:99999": "",
		"registry.example.com:http":  "",
		"user@registry.example.com":  "",
		"registry.example.com/path":  "",
		"-registry.example.com":      "",
		"registry.example.com\n":     "",
		"..":                         "",
	} {
		got, err := hostname.Parse(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("Parse(%q) = %q, %v; want %q", in, got, err, want)
		}
		if err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("Parse(%q): error %v is not ErrInvalid", in, err)
		}
	}
}

// Service discovery at the host that Parse returns reaches the registry of the input. Parsing the displayed form returns the
// same host.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"registry.terraform.io", "bücher.example:8443", "xn--a.example", "127.0.0.1:1", "a.b:443", "ａ.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := hostname.Parse(s)
		if err != nil {
			return
		}
		for _, c := range []byte(h) {
			if c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' {
				t.Fatalf("Parse(%q) = %q has byte %q", s, h, c)
			}
		}
		again, err := hostname.Parse(hostname.Display(h))
		if err != nil || again != h {
			t.Fatalf("Parse(%q) = %q; shown as %q it parses to %q, %v", s, h, hostname.Display(h), again, err)
		}
	})
}
