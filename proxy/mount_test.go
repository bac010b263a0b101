package proxy_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/proxy"
)

// ownersSay makes requests with a header come from the owner, like requests on the socket.
func ownersSay(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Operator") == "yes" {
			r = r.WithContext(auth.WithPrincipal(r.Context(), auth.Owner))
		}
		h.ServeHTTP(w, r)
	})
}

func TestMounts(t *testing.T) {
	say := func(text string, err error) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, _ *http.Request) error {
			if err == nil {
				fmt.Fprint(w, text)
			}
			return err
		}
	}
	h := ownersSay(proxy.New(proxy.Config{
		Operators: &auth.Authenticator{JWT: names{
			"o.p.s": {Kind: auth.ByToken, Grant: auth.Grant{Admin: true}},
			"r.e.f": {Kind: auth.ByToken, Grant: auth.Grant{Refresh: true}},
			"r.e.a": {Kind: auth.ByToken, Grant: auth.Grant{Scopes: []auth.Scope{auth.Everything}}},
		}},
		Mounts: []proxy.Mount{
			{Method: "GET", Path: "/-/api/thing", Kind: "api", Handle: say("read", nil)},
			{Method: "GET", Path: "/-/api/refresh", Kind: "api", Refresh: true, Handle: say("refreshed", nil)},
			{Method: "POST", Path: "/-/api/thing", Kind: "api", Handle: say("written", nil)},
			{Method: "GET", Path: "/-/api/absent", Kind: "api", Handle: say("", fmt.Errorf("thing: %w", fs.ErrNotExist))},
			{Method: "GET", Path: "/-/api/invalid", Kind: "api", Handle: say("", modproxy.ErrInvalid)},
			{Method: "GET", Path: "/-/api/changed", Kind: "api", Handle: say("", modproxy.ErrChanged)},
			{Method: "GET", Path: "/-/open/", Kind: "open", Public: true, Handle: say("open", nil)},
			{Method: "POST", Path: "/-/hooks/", Kind: "webhook", Open: true, Handle: say("accepted", nil)},
		},
	}))
	for _, c := range []struct {
		method, path, header string
		status               int
		body                 string
	}{
		{"GET", "/-/api/thing", "X-Operator: yes", 200, "read"},
		{"POST", "/-/api/thing", "X-Operator: yes", 200, "written"},
		{"HEAD", "/-/api/thing", "X-Operator: yes", 200, ""},
		{"GET", "/-/api/thing", "Authorization: Bearer o.p.s", 200, "read"},
		{"GET", "/-/api/thing", "Authorization: Bearer r.e.a", 404, "this path does not exist"},
		{"GET", "/-/api/thing", "Authorization: Bearer r.e.f", 404, "this path does not exist"},
		{"GET", "/-/api/refresh", "Authorization: Bearer r.e.f", 200, "refreshed"},
		{"GET", "/-/api/refresh", "Authorization: Bearer o.p.s", 200, "refreshed"},
		{"GET", "/-/api/refresh", "Authorization: Bearer r.e.a", 404, "this path does not exist"},
		{"GET", "/-/api/refresh", "", 401, "no token was sent"},
		{"GET", "/-/api/thing", "Authorization: Bearer x.x.x", 401, "the token is not known"},
		{"POST", "/-/api/thing", "", 401, "no token was sent"},
		{"GET", "/-/api/thing", "", 401, "unauthorized"},
		{"DELETE", "/-/api/thing", "X-Operator: yes", 405, ""},
		{"GET", "/-/api/absent", "X-Operator: yes", 404, "thing"},
		{"GET", "/-/api/invalid", "X-Operator: yes", 400, "invalid"},
		{"GET", "/-/api/changed", "X-Operator: yes", 409, "changed"},
		{"GET", "/-/open/any/thing", "", 200, "open"},
		{"POST", "/-/open/any/thing", "", 405, ""},
		{"POST", "/-/hooks/any", "", 200, "accepted"},
		{"GET", "/-/hooks/any", "", 404, ""},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s (%s) = %d %q; want %d %q", c.method, c.path, c.header, w.Code, w.Body, c.status, c.body)
		}
	}
	r := httptest.NewRequest("POST", "/-/api/thing", nil)
	r.Header.Set("X-Operator", "yes")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("a page of another site was answered %d", w.Code)
	}
}

// A minor problem leaves the proxy ready.
func TestReadyDespiteAProblem(t *testing.T) {
	h := proxy.New(proxy.Config{Local: true, Process: process{problems: []proxy.Problem{
		{State: "no package is fetched from a git repository", Err: errors.New("git is not in PATH"), Minor: true},
	}}})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/-/readyz", nil))
	if want := "ready, but no package is fetched from a git repository: git is not in PATH\n"; w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %q; want %q", w.Code, w.Body, want)
	}
}
