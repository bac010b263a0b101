package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/egress"
)

func hello(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRedirectsAreFollowedWithinThePolicy(t *testing.T) {
	secret := canary(t)
	plain := serve(t, "http", "127.0.0.1", hello)
	var s *server
	s = serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/relative": "../end?x=1", "/two": "/relative", "/loop": "/loop", "/absolute": s.at("https", "up.test", "/end"),
			"/file": "file:///etc/passwd", "/ftp": "ftp://up.test/", "/user": s.at("https", "u:SECRET@up.test", "/end"),
			"/canary": secret.at("https", "evil.test", "/?token=SECRET"), "/address": secret.at("https", "127.0.0.1", "/"),
			"/via": "/canary", "/down": plain.at("http", "up.test", "/"), "/plain": plain.at("http", "two.test", "/"),
			"/broken": "https://[SECRET", "/long": "/" + strings.Repeat("x", 9000),
		}[r.URL.Path]
		if to == "" {
			hello(w, r)
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
	cfg := up()
	cfg.Ports = append(cfg.Ports, secret.port) // so that the address is refused, not the port
	c := client(t, cfg)
	for _, tt := range []struct {
		path string
		end  string
		err  error
	}{
		{"/relative", "/end", nil}, {"/two", "/end", nil}, {"/absolute", "/end", nil},
		{"/down", "/", nil}, // up.test is excepted
		{"/loop", "", egress.ErrAnswer},
		{"/file", "", egress.ErrRefused}, {"/ftp", "", egress.ErrRefused}, {"/user", "", egress.ErrRefused},
		{"/canary", "", egress.ErrRefused}, {"/address", "", egress.ErrRefused}, {"/via", "", egress.ErrRefused},
		{"/plain", "", egress.ErrRefused}, {"/broken", "", egress.ErrRefused}, {"/long", "", egress.ErrRefused},
	} {
		before := s.requests.Load()
		resp, err := c.Get(t.Context(), egress.Request{URL: s.at("https", "up.test", tt.path), Redirects: 3, Attempts: 2})
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: got %v, want %v", tt.path, err, tt.err)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error shows a secret: %v", tt.path, err)
		}
		if n := s.requests.Load() - before; n > 4 {
			t.Errorf("%s: %d requests", tt.path, n)
		}
		if err == nil {
			if got := resp.Request.URL.Path; got != tt.end || read(t, resp) != "hello" {
				t.Errorf("%s: ended at %s", tt.path, got)
			}
		}
	}
	resp, err := c.Get(t.Context(), egress.Request{URL: s.at("https", "up.test", "/absolute")})
	if err != nil || resp.StatusCode != http.StatusFound ||
		resp.Header.Get("Location") != s.at("https", "up.test", "/end") {
		t.Fatalf("without redirects: got %v, %v, want the redirect itself", resp, err)
	}
	resp.Body.Close()
}

func TestBudgetIsForAllRequestsTogether(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	c := client(t, up())
	budget := egress.NewBudget(5)
	for _, tt := range []struct {
		path string
		sent int64
		want int
		err  error
	}{
		{"/end", 1, 200, nil},
		{"/moved", 2, 200, nil},
		{"/broken", 2, 502, nil}, // the last response, instead of a third attempt
		{"/end", 0, 0, egress.ErrAnswer},
	} {
		before := s.requests.Load()
		resp, err := c.Get(t.Context(), egress.Request{URL: s.at("https", "up.test", tt.path), Redirects: 9,
			Attempts: 3, Budget: budget})
		if !errors.Is(err, tt.err) || err == nil && resp.StatusCode != tt.want {
			t.Errorf("%s: got %v, %v; want %d, %v", tt.path, resp, err, tt.want, tt.err)
		}
		if err == nil {
			resp.Body.Close()
		}
		if n := s.requests.Load() - before; n != tt.sent {
			t.Errorf("%s: %d requests; want %d", tt.path, n, tt.sent)
		}
	}
}

func TestCredentialsGoToTheirOriginOnly(t *testing.T) {
	var got []string
	record := func(to func() string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Host[:strings.IndexByte(r.Host, ':')]+r.URL.Path+" "+r.Header.Get("Authorization"))
			for _, name := range []string{"Cookie", "Referer", "Private-Token", "X-Forwarded-For"} {
				if r.Header.Get(name) != "" {
					t.Errorf("%s is sent", name)
				}
			}
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1", Domain: "test"})
			if to() != "" && r.URL.Path == "/" {
				http.Redirect(w, r, to(), http.StatusTemporaryRedirect)
			}
		}
	}
	var to string
	a := serve(t, "https", "127.0.0.1", record(func() string { return to }))
	b := serve(t, "https", "127.0.0.1", record(func() string { return "" }))
	p := serve(t, "http", "127.0.0.1", record(func() string { return "" }))
	c := client(t, up("two.test", "up.test.two.test"))
	for _, tt := range []struct {
		to, want string
	}{
		{"/x", "up.test/x Bearer SECRET"},
		{a.at("https", "UP.test", "/x"), "up.test/x Bearer SECRET"},
		{a.at("https", "two.test", "/x"), "two.test/x "}, // another host
		{b.at("https", "up.test", "/x"), "up.test/x "},   // another port
		{p.at("http", "up.test", "/x"), "up.test/x "},    // another scheme
	} {
		to, got = tt.to, nil
		resp, err := c.Get(t.Context(), egress.Request{
			URL: a.at("https", "up.test", "/"), Redirects: 2,
			Header: http.Header{"Accept": {"application/json"}},
			Credentials: []egress.Credential{
				{Origin: a.at("https", "evil.test", ""), Authorization: egress.NewSecret("Bearer OTHER")},
				{Origin: a.at("https", "up.test", ""), Authorization: egress.NewSecret("Bearer SECRET")},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if diff := cmp.Diff([]string{"up.test/ Bearer SECRET", tt.want}, got); diff != "" {
			t.Errorf("redirect to %s: (-want +got)\n%s", tt.to, diff)
		}
	}
}

func TestOnlyTheCallersHeadersAreSent(t *testing.T) {
	var got http.Header
	s := serve(t, "https", "127.0.0.1", func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	cfg := up()
	cfg.UserAgent = "modproxy/1"
	c := client(t, cfg)
	for _, archive := range []bool{false, true} {
		resp, err := c.Get(t.Context(), egress.Request{URL: s.at("https", "up.test", "/a b?c d"), Archive: archive,
			Header: http.Header{"Accept": {"text/plain"}}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		coding := map[bool]string{false: "gzip", true: "identity"}[archive]
		want := http.Header{"Accept": {"text/plain"}, "Accept-Encoding": {coding}, "User-Agent": {"modproxy/1"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("header (-want +got)\n%s", diff)
		}
	}
}

func TestRequestsAreChecked(t *testing.T) {
	c := client(t, up())
	for _, r := range []egress.Request{
		{Header: http.Header{"Authorization": {"x"}}}, {Header: http.Header{"cookie": {"x"}}},
		{Header: http.Header{"Referer": {"x"}}},
		{Credentials: []egress.Credential{{Origin: ""}}},
		{Credentials: []egress.Credential{{Origin: "https://up.test/path"}}},
		{Credentials: []egress.Credential{{Origin: "up.test"}}},
		{Credentials: []egress.Credential{{Origin: "https://up.test:443"}}},
		{MaxBytes: -1}, {Redirects: -1}, {Attempts: -1},
	} {
		r.URL = "https://up.test/"
		if resp, err := c.Get(t.Context(), r); err == nil {
			resp.Body.Close()
			t.Errorf("%v is accepted", r)
		}
	}
}

func TestErrorsShowNoSecrets(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", r.Header.Get("Authorization"))
		conn.Close()
	})
	_, err := client(t, up()).Get(t.Context(), egress.Request{
		URL: s.at("https", "up.test", "/x?token=SECRET"),
		Credentials: []egress.Credential{{Origin: s.at("https", "up.test", ""),
			Authorization: egress.NewSecret("Bearer SECRET")}},
	})
	if err == nil || strings.Contains(err.Error(), "SECRET") ||
		!strings.Contains(err.Error(), s.at("https", "up.test", "/x")) {
		t.Errorf("got %v, want an error with the URL and without its secrets", err)
	}
}

// A caller can refuse a redirect: its target is then not requested.
func TestCheckRedirect(t *testing.T) {
	errNot := errors.New("not there")
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/third" {
			http.Redirect(w, r, map[string]string{"/first": "/second", "/second": "/third"}[r.URL.Path], http.StatusFound)
		}
	})
	c := client(t, up())
	for refused, requests := range map[string]int{"/second": 1, "/third": 2, "/fourth": 3} {
		before := s.requests.Load()
		resp, err := c.Get(t.Context(), egress.Request{URL: s.at("https", "up.test", "/first"), Redirects: 3, Attempts: 2,
			CheckRedirect: func(from, to *url.URL) error {
				if from.Path == to.Path || to.Host != from.Host {
					t.Errorf("from %s to %s", from, to)
				}
				if to.Path == refused {
					return errNot
				}
				return nil
			}})
		if err == nil {
			resp.Body.Close()
		}
		isRefused := errors.Is(err, errNot) && errors.Is(err, egress.ErrRefused) && !egress.MayPass(err)
		if isRefused != (refused != "/fourth") || (err == nil) == isRefused || int(s.requests.Load()-before) != requests {
			t.Errorf("%s: %d requests, error %v", refused, s.requests.Load()-before, err)
		}
	}
}
