package proxy_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
)

func TestMounts(t *testing.T) {
	say := func(text string, err error) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, _ *http.Request) error {
			if err == nil {
				fmt.Fprint(w, text)
			}
			return err
		}
	}
	h := proxy.New(proxy.Config{
		Operator: func(r *http.Request) bool { return r.Header.Get("X-Operator") == "yes" },
		Mounts: []proxy.Mount{
			{Method: "GET", Path: "/-/api/thing", Kind: "api", Handle: say("read", nil)},
			{Method: "POST", Path: "/-/api/thing", Kind: "api", Handle: say("written", nil)},
			{Method: "GET", Path: "/-/api/absent", Kind: "api", Handle: say("", fmt.Errorf("thing: %w", fs.ErrNotExist))},
			{Method: "GET", Path: "/-/api/invalid", Kind: "api", Handle: say("", modproxy.ErrInvalid)},
			{Method: "GET", Path: "/-/api/changed", Kind: "api", Handle: say("", modproxy.ErrChanged)},
			{Method: "GET", Path: "/-/open/", Kind: "open", Known: true, Handle: say("open", nil)},
		},
	})
	for _, c := range []struct {
		method, path, header string
		status               int
		body                 string
	}{
		{"GET", "/-/api/thing", "X-Operator: yes", 200, "read"},
		{"POST", "/-/api/thing", "X-Operator: yes", 200, "written"},
		{"HEAD", "/-/api/thing", "X-Operator: yes", 200, ""},
		{"POST", "/-/api/thing", "", 401, "unauthorized"},
		{"GET", "/-/api/thing", "", 401, "unauthorized"},
		{"DELETE", "/-/api/thing", "X-Operator: yes", 405, ""},
		{"GET", "/-/api/absent", "X-Operator: yes", 404, "thing"},
		{"GET", "/-/api/invalid", "X-Operator: yes", 400, "invalid"},
		{"GET", "/-/api/changed", "X-Operator: yes", 409, "changed"},
		{"GET", "/-/open/any/thing", "", 200, "open"},
		{"POST", "/-/open/any/thing", "", 405, ""},
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
