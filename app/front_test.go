package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAskFront: askFront finds fronts that lose the reasons of errors, and returns an error if another program answers.
func TestAskFront(t *testing.T) {
	phrase := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 400 Bad Request (no host)\r\nContent-Length: 17\r\n\r\n{\"errors\":[\"no\"]}")
	}
	plain := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"errors":["no"]}`)
	}
	other := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		http2  bool
		says   string
		fails  bool
	}{
		{"keeps", phrase, false, "", false},
		{"drops", plain, false, "the front drops reason phrases", false},
		{"http2", plain, true, "HTTP/2.0", false},
		{"other", other, true, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(c.answer)
			server.EnableHTTP2 = c.http2
			server.StartTLS()
			defer server.Close()
			problem, err := askFront(t.Context(), server.URL)
			if (err != nil) != c.fails || !strings.Contains(problem, c.says) || problem != "" && c.says == "" {
				t.Errorf("%q, %v", problem, err)
			}
		})
	}
	server := httptest.NewServer(nil)
	server.Close()
	if problem, err := askFront(t.Context(), server.URL); err == nil {
		t.Error(problem)
	}
}

// TestReceivedBy: only the entry of the nearest proxy counts. A client may have written the entries before it.
func TestReceivedBy(t *testing.T) {
	for via, want := range map[string]string{
		"2.0 Caddy":                      "2",
		"2 front":                        "2",
		"HTTP/3 front":                   "3",
		"http/2.0 front (CloudFront)":    "2",
		"1.1 front":                      "1",
		"1.0 fred, 2.0 front":            "2",
		"2.0 written by a client, 1.1 x": "1",
		"TLS/2 front":                    "",
		"2":                              "",
		"22 front":                       "",
		"-2 front":                       "",
		"":                               "",
	} {
		if got := receivedBy([]string{"2.0 other line", via}); got != want {
			t.Errorf("%q: %q; want %q", via, got, want)
		}
	}
	if got := receivedBy(nil); got != "" {
		t.Errorf("none: %q", got)
	}
}
