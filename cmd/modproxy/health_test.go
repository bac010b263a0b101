package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	status := http.StatusOK
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/-/healthz" || r.Header.Get("Authorization") != "" {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	})
	plain, withTLS := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	withTLS.Config.ErrorLog = log.New(io.Discard, "", 0) // errors of clients that do not trust the certificate
	withTLS.StartTLS()
	defer plain.Close()
	defer withTLS.Close()
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	// Invalid variables do not prevent the check.
	local := []string{"MODPROXY_LISTEN=" + strings.Replace(address(plain), "127.0.0.1", "0.0.0.0", 1), "HTTP_PROXY=http://127.0.0.1:1"}
	localTLS := []string{"MODPROXY_LISTEN=" + address(withTLS), "MODPROXY_TLS_CERT_FILE=c", "MODPROXY_TLS_KEY_FILE=k"}

	for name, test := range map[string]struct {
		variables []string
		args      []string
		status    int
		code      int
		out       string // part of the output
	}{
		"well":                  {local, nil, 200, exitDone, "ok\n"},
		"well, TLS":             {localTLS, nil, 200, exitDone, "ok\n"},
		"well, by URL":          {nil, []string{"--url", plain.URL + "/"}, 200, exitDone, "ok\n"},
		"unwell":                {local, nil, 503, exitFailed, "503 Service Unavailable\n"},
		"redirect":              {local, nil, 302, exitFailed, "302 Found\n"},
		"unknown certificate":   {nil, []string{"--url", withTLS.URL}, 200, exitFailed, "\nhint: name the certificate's authority in SSL_CERT_FILE"},
		"not a URL":             {nil, []string{"--url", "localhost"}, 200, exitMisuse, "--url: want an absolute URL"},
		"port unknown":          {[]string{"MODPROXY_LISTEN=127.0.0.1:0"}, nil, 200, exitMisuse, "hint: say --url\n"},
		"listen makes no sense": {[]string{"MODPROXY_LISTEN=8080"}, nil, 200, exitMisuse, "listen: want an address and a port"},
	} {
		status = test.status
		got := command(t, test.variables, append([]string{"health"}, test.args...)...)
		if got.code != test.code || !strings.Contains(got.stdout+got.stderr, test.out) {
			t.Errorf("%s: exit code %d, %s%s; want %d, %s", name, got.code, got.stdout, got.stderr, test.code, test.out)
		}
	}
	plain.Close()
	if got := command(t, local, "health"); got.code != exitFailed || !strings.Contains(got.stderr, "hint: is modproxy running?") {
		t.Errorf("nobody there: exit code %d, %s", got.code, got.stderr)
	}
}
