package modproxy_test

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestModuleCheck(t *testing.T) {
	long := strings.Repeat("a", 65)
	for _, c := range []struct {
		namespace, name, system string
		ok                      bool
	}{
		{"terraform-aws-modules", "vpc", "aws", true},
		{"Azure", "avm-res-storage_x", "azurerm", true},
		{"a", "b", "c", true},
		{"a", "b", "AWS", false},
		{"a", "b", "aws-2", false},
		{"-a", "b", "aws", false},
		{"a", "b_", "aws", false},
		{"", "b", "aws", false},
		{"..", "b", "aws", false},
		{"a/b", "b", "aws", false},
		{"a\n", "b", "aws", false},
		{"ａ", "b", "aws", false},
		{long, "b", "aws", false},
		{"a", "b", long, false},
	} {
		m := modproxy.Address{Host: "registry.example.com", Namespace: c.namespace, Name: c.name, System: c.system}
		err := m.Check()
		if (err == nil) != c.ok {
			t.Errorf("%q.Check() = %v", m, err)
		}
		if err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q.Check() = %v, not ErrInvalid", m, err)
		}
	}
}

func TestDigestText(t *testing.T) {
	text := strings.Repeat("0a", 32)
	d, err := modproxy.ParseDigest(text)
	if err != nil || d.String() != text || d.IsZero() {
		t.Errorf("ParseDigest(%q) = %v, %v", text, d, err)
	}
	for _, bad := range []string{"", "0a", strings.Repeat("0A", 32), text + "00", strings.Repeat("zz", 32)} {
		if d, err := modproxy.ParseDigest(bad); !errors.Is(err, modproxy.ErrInvalid) || !d.IsZero() {
			t.Errorf("ParseDigest(%q) = %v, %v", bad, d, err)
		}
	}
}

func TestSum(t *testing.T) {
	hash := sha256.Sum256(nil)
	const want = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	if got := modproxy.NewSum(hash); got != want {
		t.Errorf("NewSum = %s, want %s", got, want)
	}
	if got, err := modproxy.Sum(want).Hash(); err != nil || got != hash {
		t.Errorf("Hash = %x, %v", got, err)
	}
	for _, bad := range []string{"", "h1:", "h1:47DEQpj8", want[1:], "h2:" + want[3:], want + "=", want[:45] + "V=", want[:20] + "\n" + want[20:]} {
		if _, err := modproxy.Sum(bad).Hash(); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("Hash of %q: %v, want ErrInvalid", bad, err)
		}
	}
}
