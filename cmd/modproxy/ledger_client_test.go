package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/admin"
)

// The token is for the proxy that was named, and for nobody that it names.
func TestRemoteLedgerFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("somebody else was asked for %s, and shown %q", r.URL, r.Header["Authorization"])
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer mp_x" {
				t.Errorf("who was named is shown %q", r.Header["Authorization"])
			}
			w.Header().Set("Location", elsewhere.URL+r.URL.Path)
			w.WriteHeader(status)
		}))
		_, err := newRemoteLedger(t.Context(), named.URL, "", "mp_x")
		if err == nil || !strings.Contains(err.Error(), http.StatusText(status)) {
			t.Errorf("%d: %v", status, err)
		}
		named.Close()
	}
}

// A variable has the token of a host as clients ask it: by https, at its own port.
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
		"http://127.0.0.1:8080":                "mp_here", // which never leaves this machine
	} {
		if got, err := env.token(lockFlags{url: url}); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", url, got, err, want)
		}
	}
}

// What is printed as a command does what it says and nothing else, whatever a
// publisher calls a directory.
func TestDriftIsQuoted(t *testing.T) {
	d := admin.Drift{Module: "registry.example.com/acme/network/aws", Version: "1.0.0", Offered: "h1:x=", Subdir: "x;touch${IFS}y;#", Open: true}
	if want := `--sum h1:x= --subdir 'x;touch${IFS}y;#' --reason …`; !strings.Contains(driftText(d), want) {
		t.Errorf("%s has no %s", driftText(d), want)
	}
}
