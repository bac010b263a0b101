package config_test

import (
	"testing"

	"github.com/modproxy/modproxy/config"
)

// TestDocsURL: another service describes the registry of OpenTofu, unless the configuration says otherwise.
func TestDocsURL(t *testing.T) {
	const other = "https://docs.example.com"
	for u, want := range map[config.Upstream]string{
		{Host: "registry.opentofu.org"}:                                      "https://api.opentofu.org",
		{Host: "registry.opentofu.org", Docs: other}:                         other,
		{Host: "registry.opentofu.org", Modules: "https://mirror.example/"}:  "",
		{Host: "registry.opentofu.org", Providers: "https://mirror.example"}: "",
		{Host: "registry.terraform.io"}:                                      "",
		{Host: "*"}:                                                          "",
	} {
		if got := u.DocsURL(); got != want {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
}
