package hostname_test

import (
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

func TestParseModule(t *testing.T) {
	for s, want := range map[string]string{
		"registry.example.com/acme/vpc/aws":      "registry.example.com/acme/vpc/aws",
		"Registry.Example.com:443/Acme/vpc/aws":  "registry.example.com/Acme/vpc/aws",
		"bücher.example/acme/vpc/aws":            "xn--bcher-kva.example/acme/vpc/aws",
		"xn--bcher-kva.example:8443/acme/vpc/a1": "xn--bcher-kva.example:8443/acme/vpc/a1",
		"acme/vpc/aws":                           "registry.example.org/acme/vpc/aws",
	} {
		if m, err := hostname.ParseModule(s, "registry.example.org"); err != nil || m.String() != want {
			t.Errorf("%s: %v, %v; want %s", s, m, err, want)
		}
	}
	for _, s := range []string{"", "acme/vpc/aws", "registry.example.com/acme/vpc", "registry.example.com/acme/vpc/aws/x", "-/acme/vpc/aws", "registry.example.com/acme/vpc/AWS", "//a/b"} {
		if m, err := hostname.ParseModule(s, ""); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v, %v; want ErrInvalid", s, m, err)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for s, want := range map[string]string{
		"registry.example.com/acme/vpc/aws": "registry.example.com/acme/vpc/aws",
		"acme/vpc/aws":                      "registry.example.org/acme/vpc/aws",
		"localhost/vpc/aws":                 "registry.example.org/localhost/vpc/aws",
		"Acme/Toy":                          "registry.example.org/acme/toy",
		"Registry.example.com/Acme/Toy":     "registry.example.com/acme/toy",
		"localhost:8080/acme/toy":           "localhost:8080/acme/toy",
	} {
		if m, err := hostname.ParseAddress(s, "registry.example.org"); err != nil || m.String() != want {
			t.Errorf("%s: %v, %v; want %s", s, m, err, want)
		}
	}
	if m, err := hostname.ParseAddress("localhost/acme/toy", ""); err != nil || !m.IsProvider() {
		t.Errorf("%v, %v", m, err)
	}
	for _, s := range []string{"", "acme", "acme/toy", "registry.example.com/acme/terraform-toy", "a.example/b/c/d/e", "/acme/toy"} {
		if m, err := hostname.ParseAddress(s, ""); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v, %v; want ErrInvalid", s, m, err)
		}
	}
}
