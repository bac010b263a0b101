package modproxy_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestZips(t *testing.T) {
	linux, darwin := modproxy.Platform{OS: "linux", Arch: "amd64"}, modproxy.Platform{OS: "darwin", Arch: "arm64"}
	one := modproxy.NewZips(map[modproxy.Platform]modproxy.Digest{linux: {1}})
	two := modproxy.NewZips(map[modproxy.Platform]modproxy.Digest{linux: {1}, darwin: {2}})
	other := modproxy.NewZips(map[modproxy.Platform]modproxy.Digest{linux: {3}, darwin: {2}})
	if want := "darwin_arm64:02" + strings.Repeat("00", 31) + " linux_amd64:01" + strings.Repeat("00", 31); string(two) != want {
		t.Errorf("zips %q, want %q", two, want)
	}
	if d, ok := two.Of(darwin); !ok || d != (modproxy.Digest{2}) {
		t.Errorf("of darwin: %v, %v", d, ok)
	}
	if _, ok := one.Of(darwin); ok {
		t.Error("one has darwin")
	}
	if !two.Extends(one) || !one.Extends(one) || one.Extends(two) || other.Extends(one) || modproxy.Zips("x").Extends("") {
		t.Error("Extends")
	}
	for _, bad := range []modproxy.Zips{"x", one + " ", one + " " + one, modproxy.Zips(strings.ToUpper(string(one)))} {
		if _, err := bad.All(); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestDigests(t *testing.T) {
	two := modproxy.NewDigests(modproxy.Digest{2}, modproxy.Digest{1}, modproxy.Digest{2})
	if all, err := two.All(); err != nil || !slices.Equal(all, []modproxy.Digest{{1}, {2}}) {
		t.Errorf("%q: %v, %v", two, all, err)
	}
	for _, bad := range []modproxy.Digests{"x", two + " ", two + " " + two, modproxy.Digests(strings.ToUpper("ab" + string(two[2:])))} {
		if _, err := bad.All(); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestKeys(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("B", 64)
	keys, err := modproxy.NewKeys(b, a, a)
	if want := strings.ToUpper(a) + " " + b; err != nil || string(keys) != want || keys.Check() != nil {
		t.Errorf("keys %q, %v; want %q", keys, err, want)
	}
	one, _ := modproxy.NewKeys(a)
	other, _ := modproxy.NewKeys(b)
	if !one.Intersects(keys) || one.Intersects(other) || one.Union(other) != keys || modproxy.Keys("").Intersects(keys) {
		t.Error("Meets, With")
	}
	for _, bad := range []string{"", "abc", strings.Repeat("g", 40)} {
		if _, err := modproxy.NewKeys(bad); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestHashes(t *testing.T) {
	sum := string(modproxy.NewSum([32]byte{1}))
	for text, good := range map[string]bool{"": true, sum: true, sum + " " + sum: true, sum + "  " + sum: false, "h1:x": false, sum + " " + sum + " " + sum: false} {
		if err := modproxy.Hashes(text).Check(); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSigningKeys(t *testing.T) {
	v := modproxy.NewProvider("registry.example.com", "acme", "toy").SigningKeys()
	if v.Variant.Kind != modproxy.KeysVariant || !v.IsRecordOnly() || !v.Address.At("0.0.0").IsListed() {
		t.Errorf("%s", v)
	}
}
