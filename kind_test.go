package modproxy_test

import (
	"testing"

	"github.com/modproxy/modproxy"
)

func TestAddressKind(t *testing.T) {
	module := modproxy.Address{Host: "registry.example.com:8443", Namespace: "acme", Name: "vpc", System: "aws"}
	provider := modproxy.NewProvider("registry.example.com:8443", "acme", "toy")
	for m, want := range map[modproxy.Address]modproxy.AddressKind{module: modproxy.Module, provider: modproxy.Provider, {}: modproxy.Provider} {
		if m.Kind() != want || m.IsModule() != (want == modproxy.Module) || m.IsProvider() != (want == modproxy.Provider) {
			t.Errorf("%#v: kind %d, IsModule %t, IsProvider %t; want kind %d", m, m.Kind(), m.IsModule(), m.IsProvider(), want)
		}
	}
	for m, want := range map[modproxy.Address]string{module: "acme/vpc/aws", provider: "acme/toy", {Namespace: "acme"}: "acme/", {}: "/"} {
		if got := m.WithoutHost(); got != want {
			t.Errorf("%s without its host: %q; want %q", m, got, want)
		}
	}
	for k, want := range map[modproxy.AddressKind]bool{modproxy.Module: false, modproxy.Provider: true} {
		if k.FoldsCase() != want || k.HasWarnings() != want {
			t.Errorf("kind %d: FoldsCase %t, HasWarnings %t", k, k.FoldsCase(), k.HasWarnings())
		}
	}
}

// The signing keys of a provider are not one of its versions: only their Ref has KeysContent, and other spellings of it do not.
func TestContent(t *testing.T) {
	module := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	provider := modproxy.NewProvider("registry.example.com", "acme", "toy")
	for v, want := range map[modproxy.Ref]modproxy.ContentKind{
		module.At("1.0.0"): modproxy.ModuleContent,
		module.At("1.0.0").With(modproxy.RewrittenVariant, "0a"):                        modproxy.ModuleContent,
		module.At("0.0.0+modproxy.keys"):                                                modproxy.ModuleContent,
		module.At("1.0.0+modproxy.platform.linux-amd64"):                                modproxy.ModuleContent,
		provider.At("1.0.0"):                                                            modproxy.ReleaseContent,
		provider.At("0.0.0"):                                                            modproxy.ReleaseContent,
		provider.At("1.0.0+modproxy.keys"):                                              modproxy.ReleaseContent,
		provider.At("1.0.0").ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"}): modproxy.ArchiveContent,
		provider.At("1.0.0+modproxy.platform.linux-amd64"):                              modproxy.ArchiveContent,
		provider.SigningKeys():                                                          modproxy.KeysContent,
		provider.At("0.0.0+modproxy.keys"):                                              modproxy.KeysContent,
	} {
		if got := v.Content(); got != want {
			t.Errorf("%s: content %d; want %d", v, got, want)
		}
	}
}
