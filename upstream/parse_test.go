package upstream

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

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
		`{"modules.v1":"http://api.example.com/m/"}`:                     "http://api.example.com/m/", // egress has the last word
		`{"modules.v1":"ftp://api.example.com/m/"}`:                      "",
		`{"modules.v1":"https://u:p@api.example.com/m/"}`:                "",
		`{"modules.v1":{"url":"/v1/modules/"}}`:                          "",
		`{"modules.v2":"/v2/modules/"}`:                                  "",
		`{}`:                                                             "", `[]`: "", `null`: "", ``: "", `<html>`: "",
	} {
		got, err := parseDiscovery(final, []byte(document), modulesV1)
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
		u, err := parseDiscovery(base, document, modulesV1)
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
		got, err := parseAnswer(asked, c.header, []byte(c.body))
		if c.want == "" {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("%q and %q: %v, %v; want ErrInvalid", c.header, c.body, got, err)
			}
		} else if err != nil || got.String() != c.want || got.credentials != c.direct {
			t.Errorf("%q and %q: %+v, %v; want %s", c.header, c.body, got, err, c.want)
		}
	}
}

func TestParseSource(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for in, want := range map[string]string{
		"https://h.example/x.tar.gz":                           "tar.gz https://h.example/x.tar.gz",
		"https://h.example/x?zz=1&sig=a%2Fb%20c&archive=zip":   "zip https://h.example/x?zz=1&sig=a%2Fb%20c",
		"https://h.example/x.tgz?checksum=sha256:" + sum:       "tar.gz https://h.example/x.tgz",
		"https://h.example/x.zip?archive=false":                " https://h.example/x.zip",
		"https://h.example/x":                                  " https://h.example/x",
		"https://u:p@h.example:8443/x.zip":                     "zip https://h.example:8443/x.zip for https://h.example:8443",
		"https://h.example/x?checksum=sha256:" + sum:           "", // of what is no archive
		"https://h.example/x.zip?checksum=file:https://h/SUMS": "",
		"https:///x.zip":                                       "",
	} {
		s, err := parseSource(in, false)
		if err != nil {
			if want != "" || !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("%s: %v; want %q", in, err, want)
			}
			continue
		}
		got := string(s.format) + " " + s.url.String()
		if s.user != nil {
			got += " for " + s.user.Origin
		}
		if got != want {
			t.Errorf("%s: %q; want %q", in, got, want)
		}
		if s.archive != (s.format != "") || (s.checksum != nil) != strings.Contains(in, "checksum") {
			t.Errorf("%s: archive %v, checksum %v", in, s.archive, s.checksum)
		}
	}
}

func TestMetaTag(t *testing.T) {
	for page, want := range map[string]string{
		`<!DOCTYPE html><html><head><meta charset="utf-8"><meta name="terraform-get" content="git::https://x.example/y.git"></head></html>`: "git::https://x.example/y.git",
		`<head><META NAME="terraform-get" CONTENT="./x.zip"/>`:                                                                              "./x.zip",
		`<html><head></head><body><meta name="terraform-get" content="x">`:                                                                  "",
		`<html><head><meta name="other" content="x"></head></html>`:                                                                         "",
		`<html><head><meta name="terraform-get"></head></html>`:                                                                             "",
		"\x1f\x8b\x08\x00": "",
		``:                 "",
	} {
		got, err := metaTag(strings.NewReader(page))
		if got != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %q, %v; want %q", page, got, err, want)
		}
	}
}

func FuzzMetaTag(f *testing.F) {
	f.Add(`<head><meta name="terraform-get" content="./x.zip"></head>`)
	f.Add(`<?xml version="1.0" encoding="utf-16"?><a>&nbsp;<b`)
	f.Fuzz(func(t *testing.T, page string) {
		if got, err := metaTag(strings.NewReader(page)); (got == "") != (err != nil) {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"30": 30 * time.Second,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		"999999": time.Hour,
		"0":      0, "-1": 0, "": 0, "soon": 0, "99999999999999999999": 0,
		now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		got, ok := retryAfter(in, now)
		if ok != (want != 0) || ok && got.Sub(now) != want {
			t.Errorf("%q: %v, %v; want %v", in, got.Sub(now), ok, want)
		}
	}
}
