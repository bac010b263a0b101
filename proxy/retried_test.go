package proxy_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
)

// A client that repeats a request for a location after an error gets a status whose body it prints, also behind a front that speaks
// HTTP/2. Other requests, and other programs, get the status of the error.
func TestStatusOfRetry(t *testing.T) { synctest.Test(t, testStatusOfRetry) }

func testStatusOfRetry(t *testing.T) {
	h := newHandler(t, func(_ *proxy.Config, s *scripted) { s.err = modproxy.ErrUnavailable })
	const terraform, tofu = "Terraform/1.11.4", "OpenTofu/1.12.6"
	for i, c := range []struct {
		wait                time.Duration // since the request before
		client, agent, path string
		status              int
	}{
		{0, "192.0.2.1", terraform, base + "/1.1.0/download", 502},
		{time.Second / 2, "192.0.2.1", terraform, base + "/1.1.0/download", 502}, // of another process
		{time.Second / 2, "192.0.2.2", terraform, base + "/1.1.0/download", 502},
		{0, "192.0.2.1", terraform, base + "/1.0.0/download", 502},
		{0, "192.0.2.1", terraform, base + "/1.1.0/download", 424},
		{0, "192.0.2.1", terraform, base + "/1.1.0/download", 502}, // the next run
		{time.Hour, "192.0.2.1", terraform, base + "/1.1.0/download", 502},
		{time.Second, "192.0.2.1", tofu, base + "/1.1.0/download", 424},
		{0, "192.0.2.1", terraform, base + "/versions", 502},
		{time.Second, "192.0.2.1", terraform, base + "/versions", 502},
		{0, "192.0.2.1", "curl/8.5.0", base + "/1.1.0/download", 502},
		{time.Second, "192.0.2.1", "curl/8.5.0", base + "/1.1.0/download", 502},
	} {
		time.Sleep(c.wait)
		r := httptest.NewRequest("GET", c.path, nil)
		r.RemoteAddr = c.client + ":1"
		r.Header.Set("User-Agent", c.agent)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), "unavailable; try again, and if that fails, ask the operator of this proxy") {
			t.Errorf("request %d: %d %s; want %d", i, w.Code, w.Body, c.status)
		}
	}
}

// The body of an error is not escaped for HTML: clients print it.
func TestBodyOfError(t *testing.T) {
	h := newHandler(t, func(_ *proxy.Config, s *scripted) { s.err = modproxy.ErrDenied })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/modules/a/b/c/x>=1&y/download", nil))
	if !strings.Contains(w.Body.String(), ">=1&y") || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}
