package egress_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

// TestTransport: the policy applies to libraries that use a RoundTripper, too.
func TestTransport(t *testing.T) {
	secret := canary(t)
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, secret.at("https", "evil.test", "/"), http.StatusFound)
		case "/large":
			io.WriteString(w, strings.Repeat("x", 2000))
		case "/broken":
			http.Error(w, "no", http.StatusInternalServerError)
		default:
			io.WriteString(w, r.Header.Get("Accept")+" "+r.Header.Get("Cookie"))
		}
	})
	ask := &http.Client{
		Transport:     client(t, up()).Transport(1000),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request := func(method, url string, body io.Reader) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json")
		return ask.Do(r)
	}
	if answer, err := request("GET", s.at("https", "up.test", "/"), nil); err != nil ||
		read(t, answer) != "application/json " {
		t.Error(err)
	}
	before := s.requests.Load()
	for path, status := range map[string]int{"/away": http.StatusFound, "/broken": http.StatusInternalServerError} {
		answer, err := request("GET", s.at("https", "up.test", path), nil)
		if err != nil || answer.StatusCode != status {
			t.Fatalf("%s: %v, %v", path, answer, err)
		}
		answer.Body.Close()
	}
	if n := s.requests.Load() - before; n != 2 {
		t.Errorf("asked %d times for two answers", n)
	}
	answer, err := request("GET", s.at("https", "up.test", "/large"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(answer.Body); !errors.Is(err, egress.ErrTooLarge) {
		t.Errorf("a large body: %v", err)
	}
	answer.Body.Close()
	if _, err := request("GET", secret.at("https", "evil.test", "/"), nil); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("a canary: %v", err)
	}
	for _, body := range []io.Reader{nil, strings.NewReader("x")} {
		method := "GET"
		if body == nil {
			method = "POST"
		}
		if _, err := request(method, s.at("https", "up.test", "/"), body); err == nil {
			t.Errorf("%s with %v was sent", method, body)
		}
	}
}
