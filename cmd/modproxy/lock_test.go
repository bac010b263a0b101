package main

import (
	"testing"
)

// The token of a host comes from its variable as clients use it: for https at the default port.
func TestTokenOfTheURL(t *testing.T) {
	env := &environment{variables: []string{"TF_TOKEN_modules_my__site_example=mp_site", "TF_TOKEN_127_0_0_1=mp_here", "TF_TOKEN_xn____bcher__kva_example=mp_idn"}}
	for url, want := range map[string]string{
		"https://modules.my-site.example":      "mp_site",
		"https://modules.my-site.example:443/": "mp_site",
		"https://Modules.My-Site.example/r":    "mp_site",
		"https://bücher.example":               "mp_idn",
		"https://modules.my-site.example:8443": "",
		"http://modules.my-site.example":       "",
		"http://modules.my-site.example:443":   "",
		"https://x.modules.my-site.example":    "",
		"http://127.0.0.1:8080":                "mp_here", // stays on this machine
	} {
		if got, err := env.token(lockFlags{url: url}); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", url, got, err, want)
		}
	}
}
