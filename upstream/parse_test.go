package upstream

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func parseURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestParseDiscovery(t *testing.T) {
	final := parseURL(t, "https://registry.example.com/.well-known/terraform.json")
	for document, want := range map[string]string{
		`{"modules.v1":"/v1/modules/"}`:                                  "https://registry.example.com/v1/modules/",
		`{"modules.v1":"/v1/modules"}`:                                   "https://registry.example.com/v1/modules/",
		`{"modules.v1":"v1/modules/"}`:                                   "https://registry.example.com/.well-known/v1/modules/",
		`{"modules.v1":"https://api.example.com/m/","providers.v1":[1]}`: "https://api.example.com/m/",
		`{"modules.v1":"https://api.example.com/m?key=1#x"}`:             "https://api.example.com/m/",
		`{"modules.v1":"http://api.example.com/m/"}`:                     "http://api.example.com/m/", // egress decides about http
		`{"modules.v1":"ftp://api.example.com/m/"}`:                      "",
		`{"modules.v1":"https://u:p@api.example.com/m/"}`:                "",
		`{"modules.v1":{"url":"/v1/modules/"}}`:                          "",
		`{"modules.v2":"/v2/modules/"}`:                                  "",
		`{}`:                                                             "", `[]`: "", `null`: "", ``: "", `<html>`: "",
	} {
		var got *url.URL
		d, err := parseDiscovery(final, []byte(document))
		if err == nil {
			got, err = d.url(modulesV1)
		}
		if want == "" {
			if !errors.Is(err, modproxy.ErrUnavailable) {
				t.Errorf("%s: %v, %v; want ErrUnavailable", document, got, err)
			}
		} else if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v; want %s", document, got, err, want)
		}
	}
}

func FuzzParseDiscovery(f *testing.F) {
	f.Add("https://a.example/x/y.json", []byte(`{"modules.v1":"../m?x#y"}`))
	f.Fuzz(func(t *testing.T, final string, document []byte) {
		base, err := url.Parse(final)
		if err != nil || base.Scheme != "https" || base.Host == "" || base.Opaque != "" {
			return
		}
		d, err := parseDiscovery(base, document)
		if err != nil {
			return
		}
		for name, at := range d.othersOf(base.Host, Host{}) {
			u, err := base.Parse(at)
			if err != nil || u.Scheme != "https" || u.User != nil || strings.HasPrefix(name, "login.") {
				t.Fatalf("%q gave %s: %q", document, name, at)
			}
			elsewhere := !strings.HasPrefix(at, "/")
			if own := strings.EqualFold(u.Hostname(), base.Hostname()); own == elsewhere && !strings.HasPrefix(at, "//") { // not a plain path
				t.Fatalf("%q gave %s: %q", document, name, at)
			}
			if !elsewhere && overlaps(at, []string{"/v1/modules/"}) {
				t.Fatalf("%q gave %s: %q", document, name, at)
			}
		}
		u, err := d.url(modulesV1)
		if err != nil {
			return
		}
		again, err := serviceURL(nil, u.String())
		if err != nil || again.String() != u.String() || !strings.HasSuffix(u.Path, "/") || u.RawQuery != "" {
			t.Fatalf("%q gave %q, which is read as %v, %v", document, u, again, err)
		}
	})
}

func TestParseAnswer(t *testing.T) {
	asked := parseURL(t, "https://registry.example.com/v1/modules/a/b/c/1.0.0/download")
	for _, c := range []struct {
		header, body, want string
		direct             bool
	}{
		{"./x.zip", ``, "https://registry.example.com/v1/modules/a/b/c/1.0.0/x.zip", false},
		{"./x.zip", `not JSON`, "https://registry.example.com/v1/modules/a/b/c/1.0.0/x.zip", false},
		{"", `{"location":"/x.zip"}`, "https://registry.example.com/x.zip", false},
		{"./x.zip", `{"location":"/y.zip"}`, "https://registry.example.com/v1/modules/a/b/c/1.0.0/x.zip", false},
		{"./x.zip", `{"location":"/y","use_registry_credentials":true}`, "https://registry.example.com/y", true},
		{"", `{"location":"https://o.example/y","use_registry_credentials":false}`, "https://o.example/y", false},
		{"", `{"location":"git::https://o.example/y","use_registry_credentials":true}`, "", false},
		{"", `{"location":"file:///etc","use_registry_credentials":true}`, "", false},
		{"", `{}`, "", false},
		{"", ``, "", false},
		{"", `<html>`, "", false},
	} {
		got, own, err := parseAnswer(asked, c.header, []byte(c.body))
		if c.want == "" {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("%q and %q: %v, %v; want ErrInvalid", c.header, c.body, got, err)
			}
		} else if err != nil || got.String() != c.want || (own != nil && *own) != c.direct {
			t.Errorf("%q and %q: %+v, %v; want %s", c.header, c.body, got, err, c.want)
		}
	}
}
