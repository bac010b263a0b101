package web_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// An archive comes from the mirror of its URL, with the credentials for the mirror only. A redirect does not lead back to the URL.
func TestMirror(t *testing.T) {
	var mu sync.Mutex
	var authorizations []string
	forge := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s at the forge", r.URL)
	}))
	defer forge.Close()
	mirror := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		authorizations = append(authorizations, r.Header.Get("Authorization"))
		mu.Unlock()
		switch r.URL.Path {
		case "/m/acme/away.zip":
			http.Redirect(w, r, forge.URL+"/acme/away.zip", http.StatusFound)
		case "/m/acme/moved.zip":
			http.Redirect(w, r, "/m/acme/vpc.zip", http.StatusFound)
		case "/m/acme/page":
			w.Header().Set("X-Terraform-Get", forge.URL+"/acme/vpc.zip")
		case "/m/acme/vpc.zip":
			w.Write(zipped(t))
		default:
			http.NotFound(w, r)
		}
	}))
	defer mirror.Close()
	g := newGetter(t, mirror) // both servers have the same certificate
	m, err := fetch.ParseMirror(strings.TrimPrefix(forge.URL, "https://")+"/acme/*", mirror.URL+"/m/acme/*")
	if err != nil {
		t.Fatal(err)
	}
	table := &fetch.Table{Getters: map[string]fetch.Getter{"https": g}, Scratch: t.TempDir(), Mirrors: fetch.Mirrors{m}}
	host := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "https://") }
	secret := egress.NewSecret("s3cret")
	g.Credentials = fetch.Credentials{{Host: host(forge), Username: "forge", Password: secret}}
	for name, want := range map[string]modproxy.Source{
		"vpc.zip":   {URL: forge.URL + "/acme/vpc.zip", Mirror: mirror.URL + "/m/acme/vpc.zip"},
		"moved.zip": {URL: forge.URL + "/acme/moved.zip", Mirror: mirror.URL + "/m/acme/moved.zip"},
		"page":      {URL: forge.URL + "/acme/vpc.zip", Mirror: mirror.URL + "/m/acme/vpc.zip"},
	} {
		s := source("https://forge:s3cret@" + host(forge) + "/acme/" + name)
		s.Own = []egress.Credential{{Origin: mirror.URL, Authorization: secret}}
		p, err := table.Package(t.Context(), s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.Close()
		if p.Source != want {
			t.Errorf("%s: %+v, want %+v", name, p.Source, want)
		}
	}
	for _, a := range authorizations {
		if a != "" {
			t.Errorf("the mirror received %q", a)
		}
	}
	g.Credentials = append(g.Credentials, fetch.Credential{Host: host(mirror), Username: "mirror", Password: secret})
	authorizations = nil
	for name, c := range map[string]struct {
		is   error
		says string
	}{
		"away.zip": {modproxy.ErrDenied, "redirected to " + forge.URL + "/acme/away.zip, which is replaced by its mirror"},
		"none.zip": {modproxy.ErrNotFound, mirror.URL + "/m/acme/none.zip: not found: "},
	} {
		_, err := table.Package(t.Context(), source(forge.URL+"/acme/"+name))
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "names this mirror of "+forge.URL+"/acme/"+name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, a := range authorizations {
		if !strings.HasPrefix(a, "Basic ") {
			t.Errorf("the mirror received %q, and not its credential", a)
		}
	}
}
