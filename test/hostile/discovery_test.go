//go:build linux

package hostile_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// document answers with a discovery document.
func document(contentType, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	}
}

func redirectTo(location string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	}
}

// endless writes a beginning and then repeats a text until the connection ends.
func endless(w io.Writer, beginning, again string) {
	io.WriteString(w, beginning)
	again = strings.Repeat(again, 1+32<<10/len(again))
	for {
		if _, err := io.WriteString(w, again); err != nil {
			return
		}
	}
}

func TestDiscoveryLeadsNowhere(t *testing.T) {
	const found = "/.well-known/terraform.json"
	p := start(t, ordinary)
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		why    string
		most   int // requests for one document
	}{
		"redirect-to-metadata":   {redirectTo("https://169.254.169.254" + found), "not allowed", 1},
		"redirect-to-name":       {redirectTo("https://inside.evil.test" + found), "not allowed", 1},
		"redirect-to-plain-http": {redirectTo("http://src.test" + found), "not allowed", 1},
		"redirect-to-port":       {redirectTo("https://src.test:8443" + found), "not allowed", 1},
		"redirect-to-file":       {redirectTo("file:///etc/passwd"), "not allowed", 1},
		"redirect-loop":          {redirectTo(found), "redirect", 4},
		"absolute-metadata":      {document("application/json", `{"modules.v1":"https://169.254.169.254/v1/modules/"}`), "not allowed", 1},
		"absolute-mapped":        {document("application/json", `{"modules.v1":"https://[::ffff:a9fe:a9fe]/"}`), "not allowed", 1},
		"absolute-name":          {document("application/json", `{"modules.v1":"https://inside.evil.test/"}`), "not allowed", 1},
		"absolute-plain-http":    {document("application/json", `{"modules.v1":"http://src.test/v1/modules/"}`), "not allowed", 1},
		"absolute-modproxy":      {document("application/json", strings.Replace(`{"modules.v1":"https:URL/"}`, "URL", strings.TrimPrefix(p.url, "http:"), 1)), "not allowed", 1},
		"user-information":       {document("application/json", `{"modules.v1":"https://u:`+secretLocation+`@src.test/"}`), "user information", 1},
		"file":                   {document("application/json", `{"modules.v1":"file:///etc/"}`), "want an http", 1},
		"opaque":                 {document("application/json", `{"modules.v1":"https:src.test"}`), "modules.v1", 1},
		"no-type":                {document("", `{"modules.v1":"/v1/modules/"}`), "something else than application/json", 1},
		"html":                   {document("text/html", `{"modules.v1":"/v1/modules/"}`), "something else than application/json", 1},
		"not-json":               {document("application/json", `<html>`), "not a JSON object", 1},
		"list":                   {document("application/json", `["modules.v1"]`), "not a JSON object", 1},
		"number":                 {document("application/json", `{"modules.v1":1}`), "not a string", 1},
		"nothing":                {document("application/json", `{}`), "does not offer", 1},
		"deep":                   {document("application/json", strings.Repeat(`{"a":`, 100_000)), "not a JSON object", 1},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			endless(w, `{"modules.v1":"/v1/modules/","padding":"`, "A")
		}, "larger than allowed", 1},
		"two-mebibytes": {document("application/json", `{"modules.v1":"/v1/modules/","padding":"`+strings.Repeat("A", 2<<20)+`"}`), "larger than allowed", 1},
		"no-content":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "204", 1},
	} {
		p.run(name, func(t *testing.T) {
			g := located("https://src.test/archives/good.tar.gz")
			g.discovery = test.answer
			m := module{g.host(t), "case", "discovery", "aws"}
			p.refuse(t, m, "1.0.0", test.why)
			if a := p.ask(http.MethodGet, m.path("versions")); a.Status < 400 || a.Status == http.StatusNotFound {
				t.Errorf("versions: %d", a.Status)
			}
			asked := 0
			for _, s := range world.strangers.at(m.host) {
				if s.URI == found {
					asked++
				}
			}
			// A failure is remembered for a while. Slow machines get a margin.
			if asked > 2*test.most {
				t.Errorf("asked %d times for the document; want at most %d, and %d after a while", asked, test.most, test.most)
			}
		})
	}
}

// Redirects within the rules are followed, as clients do.
func TestDiscoveryMayRedirect(t *testing.T) {
	p := start(t, ordinary)
	target := located("https://src.test/archives/good.tar.gz")
	elsewhere := target.host(t)
	for hops := range 4 {
		p.run(fmt.Sprint(hops), func(t *testing.T) {
			g := &registry{}
			g.discovery = func(w http.ResponseWriter, r *http.Request) {
				if n := len(r.URL.RawQuery); n < hops {
					redirectTo("?"+strings.Repeat("x", n+1))(w, r)
					return
				}
				document("application/json; charset=utf-8", `{"modules.v1":"https://`+elsewhere+`/v1/modules"}`)(w, r)
			}
			p.mustInstall(module{g.host(t), "case", "redirect", "aws"}, "1.0.0")
		})
	}
}
