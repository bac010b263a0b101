package upstream

import (
	"encoding/json"
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
)

func TestAbsoluteURLs(t *testing.T) {
	final := parseURL(t, "https://registry.example.com/v1/providers/acme/toy/1.0.0/download/linux/amd64")
	for document, want := range map[string]string{
		`{"download_url":"/a/toy.zip"}`:                           `{"download_url":"https://registry.example.com/a/toy.zip"}`,
		`{"shasums_url":"toy_SHA256SUMS"}`:                        `{"shasums_url":"https://registry.example.com/v1/providers/acme/toy/1.0.0/download/linux/toy_SHA256SUMS"}`,
		`{"shasums_signature_url":"//b.example/x.sig?a=1&b=<2>"}`: `{"shasums_signature_url":"https://b.example/x.sig?a=1&b=<2>"}`,
		`{"Download_URL":"../toy.zip"}`:                           `{"Download_URL":"https://registry.example.com/v1/providers/acme/toy/1.0.0/download/toy.zip"}`,
		`{"download_url":"https://c.example/toy.zip"}`:            `{"download_url":"https://c.example/toy.zip"}`,
		`{ "versions": [{"version":"1.0.0"}], "warnings": null }`: `{ "versions": [{"version":"1.0.0"}], "warnings": null }`,
		`{"download_url":{"a":1},"shasums_url":[null]}`:           `{"download_url":{"a":1},"shasums_url":[null]}`,
		`{"download_url":"%zz"}`:                                  `{"download_url":"%zz"}`,
		`[]`:                                                      "", `null`: "", ``: "", `<html>`: "", `{}{}`: "",
	} {
		got, err := absoluteURLs(final, []byte(document))
		if want == "" {
			if err == nil {
				t.Errorf("%s: %s; want an error", document, got)
			}
			continue
		}
		var gotValue, wantValue any
		if err != nil || json.Unmarshal(got, &gotValue) != nil || json.Unmarshal([]byte(want), &wantValue) != nil {
			t.Errorf("%s: %s, %v", document, got, err)
		} else if diff := cmp.Diff(wantValue, gotValue); diff != "" {
			t.Errorf("%s: -want +got\n%s", document, diff)
		}
	}
}

// A registry that offers modules only has no providers; nothing is wrong with it.
func TestParseDiscoveryOfProviders(t *testing.T) {
	final := parseURL(t, "https://registry.example.com/.well-known/terraform.json")
	got, err := parseDiscovery(final, []byte(`{"modules.v1":"/m/","providers.v1":"/p/"}`), providersV1)
	if err != nil || got.String() != "https://registry.example.com/p/" {
		t.Errorf("%v, %v", got, err)
	}
	for document, want := range map[string]error{
		`{"modules.v1":"/m/"}`: modproxy.ErrNotFound, `{}`: modproxy.ErrNotFound,
		`{"providers.v1":1}`: modproxy.ErrUnavailable, `[]`: modproxy.ErrUnavailable,
	} {
		if _, err := parseDiscovery(final, []byte(document), providersV1); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", document, err, want)
		}
	}
}

func FuzzAbsoluteURLs(f *testing.F) {
	f.Add("https://a.example/x/y", []byte(`{"download_url":"../z","a":[1,{"b":"<&>"}]}`))
	f.Fuzz(func(t *testing.T, final string, document []byte) {
		base, err := url.Parse(final)
		if err != nil || base.Scheme != "https" || base.Host == "" || base.Opaque != "" {
			return
		}
		got, err := absoluteURLs(base, document)
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(got, &members); err != nil {
			t.Fatalf("%q became %q: %v", document, got, err)
		}
		again, err := absoluteURLs(base, got)
		if err != nil || string(again) != string(got) {
			t.Errorf("%q is not as it will be: %q, %v", got, again, err)
		}
	})
}
