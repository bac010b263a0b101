package release_test

import (
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/release"
)

func TestNames(t *testing.T) {
	v := modproxy.NewProvider("registry.example.com", "acme", "toy").At("1.0.0-rc1")
	p := modproxy.Platform{OS: "linux", Arch: "amd64"}
	for file, want := range map[string]bool{
		"terraform-provider-toy_1.0.0-rc1_linux_amd64.zip":   true,
		"terraform-provider-toy_v1.0.0-rc1_linux_amd64.zip":  true,
		"Terraform-Provider-Toy_1.0.0-rc1_linux_amd64.zip":   true,
		"terraform-provider-toy_vv1.0.0-rc1_linux_amd64.zip": false,
		"terraform-provider-toy_1.0.0-RC1_linux_amd64.zip":   false,
		"terraform-provider-toy_1.0.0_linux_amd64.zip":       false,
		"terraform-provider-toy_1.0.0-rc1_darwin_amd64.zip":  false,
		"terraform-provider-toy_1.0.0-rc1_linux_amd64":       false,
		"terraform-provider-toy_1.0.0-rc1.zip":               false,
		"terraform-provider-toys_1.0.0-rc1_linux_amd64.zip":  false,
		"terraform-provider-toy_1.0.0-rc1_manifest.json":     false,
		"toy": false, "": false,
	} {
		if got := release.IsNamed(file, v, p); got != want {
			t.Errorf("%q: %v", file, got)
		}
		r := &release.Release{Archives: []release.Archive{{Platform: p, File: file}}}
		if err := r.CheckNames(v); (err == nil) != want || err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v", file, err)
		}
		if r.Unsigned = true; r.CheckNames(v) != nil {
			t.Errorf("%q: refused although it is unsigned", file)
		}
	}
}
