package egress_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

// TestPost: a Post has the same limits as a Get, and its body arrives in each attempt.
func TestPost(t *testing.T) {
	secret := canary(t)
	var fails, asked int
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || string(body) != "question" || r.ContentLength != 8 || err != nil {
			t.Errorf("%s with %q, %v", r.Method, body, err)
		}
		if r.Header.Get("Authorization") != "Basic eA==" || r.Header.Get("Content-Type") != "text/x" ||
			r.Header.Values("Idempotency-Key") != nil {
			t.Errorf("header %v", r.Header)
		}
		switch asked++; {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, secret.at("https", "evil.test", "/"), http.StatusTemporaryRedirect)
		case r.URL.Path == "/endless":
			w.Write(bytes.Repeat([]byte("x"), 1<<10))
		case asked <= fails:
			w.WriteHeader(http.StatusBadGateway)
		default:
			hello(w, r)
		}
	})
	c := client(t, up())
	post := func(url string, budget *egress.Budget) (*http.Response, error) {
		return c.Post(t.Context(), egress.Request{
			URL: url, Header: http.Header{"Content-Type": {"text/x"}}, Attempts: 3, Redirects: 5, MaxBytes: 100, Budget: budget,
			Credentials: []egress.Credential{
				{Origin: s.at("https", "up.test", ""), Authorization: egress.NewSecret("Basic eA==")},
				{Origin: secret.at("https", "evil.test", ""), Authorization: egress.NewSecret("Basic eQ==")},
			},
		}, []byte("question"))
	}
	fails = 2
	resp, err := post(s.at("https", "up.test", "/"), nil)
	if err != nil || asked != 3 || read(t, resp) != "hello" {
		t.Errorf("answer %v, error %v after %d requests", resp, err, asked)
	}
	resp, err = post(s.at("https", "up.test", "/moved"), nil)
	if err != nil || resp.StatusCode != http.StatusTemporaryRedirect ||
		resp.Header.Get("Location") != secret.at("https", "evil.test", "/") {
		t.Fatalf("a redirect: %v, error %v", resp, err)
	}
	resp.Body.Close()
	resp, err = post(s.at("https", "up.test", "/endless"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, egress.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	resp.Body.Close()
	asked, fails = 0, 9
	if resp, err = post(s.at("https", "up.test", "/"), egress.NewBudget(2)); err != nil ||
		resp.StatusCode != http.StatusBadGateway || asked != 2 {
		t.Errorf("within a budget of 2: %v, error %v after %d requests", resp, err, asked)
	}
	_, err = post(secret.at("https", "evil.test", "/?token=SECRET"), nil)
	if !errors.Is(err, egress.ErrRefused) || !strings.HasPrefix(err.Error(), "post https://evil.test") ||
		strings.Contains(err.Error(), "SECRET") {
		t.Errorf("refused: %v", err)
	}
}

// TestPostOverClosedConnection: if the server has closed an idle connection, the request is sent again.
func TestPostOverClosedConnection(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", hello)
	c := client(t, up())
	for range 20 {
		resp, err := c.Post(t.Context(), egress.Request{URL: s.at("https", "up.test", "/")}, []byte("question"))
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		s.CloseClientConnections()
	}
}
