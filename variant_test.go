package modproxy_test

import (
	"testing"

	"github.com/modproxy/modproxy"
)

// The text of a variant is a version in its canonical spelling, and At parses it.
func TestVariants(t *testing.T) {
	module := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	provider := modproxy.NewProvider("registry.example.com", "acme", "toy")
	sum := modproxy.NewSum([32]byte{1, 2, 3})
	for _, version := range []string{"1.2.3", "1.2.3-rc.1", "1.2.3+b5", "1.2.3-rc.1+b.5", "1.2.3+xmodproxy.y"} {
		base := module.At(version)
		if !base.IsListed() || base.Version != version || base.FullVersion() != version {
			t.Errorf("At(%s) = %#v", version, base)
		}
		for _, v := range []modproxy.Ref{
			base,
			base.NestedSource("ab", sum),
			base.ServedAs(sum),
			base.With(modproxy.SourceVariant, "0a"),
			base.With(modproxy.RewrittenVariant, "0a"),
			base.With(modproxy.BaseVariant, "0a"),
			base.With(modproxy.UnknownVariant, "other.text"),
			provider.At(version),
			provider.At(version).ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"}),
			provider.SigningKeys(),
		} {
			full := v.FullVersion()
			if canonical, err := modproxy.CanonicalVersion(full); err != nil || canonical != full {
				t.Errorf("%s is canonically %q, %v", v, canonical, err)
			}
			if again := v.Address.At(full); again != v {
				t.Errorf("At(%s) = %#v; want %#v", full, again, v)
			}
			if b := v.Base(); !b.IsListed() || b.Address != v.Address || b.Version != v.Version {
				t.Errorf("base of %s: %#v", v, b)
			}
		}
		if got, gotSum, ok := base.NestedSource("ab", sum).NestedSum(); got != "ab" || gotSum != sum || !ok {
			t.Errorf("NestedSum = %q, %s, %v", got, gotSum, ok)
		}
	}
}

// A text that is not a valid variant of that address is an unknown variant. No decision mistakes it for a known one.
func TestUnknownVariants(t *testing.T) {
	module := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	provider := modproxy.NewProvider("registry.example.com", "acme", "toy")
	for _, v := range []modproxy.Ref{
		module.At("1.0.0+modproxy.platform.linux-amd64"),
		module.At("0.0.0+modproxy.keys"),
		module.At("1.0.0+modproxy.nested.ab.01"),
		module.At("1.0.0+modproxy.source"),
		module.At("1.0.0+b.modproxy.other"),
		provider.At("1.0.0+modproxy.keys"),
		provider.At("0.0.0+modproxy.keys.x"),
		provider.At("1.0.0+modproxy.platform.linux"),
		provider.At("1.0.0+modproxy.unknown.x"),
	} {
		if v.Variant.Kind != modproxy.UnknownVariant || v.IsListed() || v.IsRecordOnly() || v.IsArchive() {
			t.Errorf("%s: %#v", v, v.Variant)
		}
		if again := v.Address.At(v.FullVersion()); again != v {
			t.Errorf("At(%s) = %#v; want %#v", v.FullVersion(), again, v)
		}
	}
}
