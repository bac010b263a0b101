package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
)

// failingServer answers every request of a protocol with err.
func failingServer(t *testing.T, err error, overTLS bool) *httptest.Server {
	h := newHandler(t, func(_ *proxy.Config, s *scripted) { s.err = err })
	server := httptest.NewUnstartedServer(h)
	if overTLS {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// The clients print the reason phrase of an answer to versions, and never its body.
func TestReasonPhrase(t *testing.T) {
	for _, overTLS := range []bool{false, true} {
		server := failingServer(t, fmt.Errorf("%w: it is\r\nX-Injected: 1 \x1b[31mnot – for… you", modproxy.ErrDenied), overTLS)
		for _, c := range []struct{ method, path, status, body string }{
			{"GET", base + "/versions", "403 Forbidden (denied: it is  X-Injected: 1  [31mnot ? for... you; ask the operator of this proxy)", `{"errors":["denied: it is  X-Injected: 1  [31mnot – for… you; ask the operator of this proxy"]}` + "\n"},
			{"HEAD", base + "/versions", "403 Forbidden (denied: it is  X-Injected: 1  [31mnot ? for... you; ask the operator of this proxy)", ""},
			{"GET", base + "/1.1.0/download", "403 Forbidden", `{"errors":["denied: it is  X-Injected: 1  [31mnot – for… you; ask the operator of this proxy"]}` + "\n"},
		} {
			r, err := http.NewRequest(c.method, server.URL+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			if err != nil || res.Status != c.status || string(got) != c.body || res.Header.Get("X-Injected") != "" || res.Header.Get("Date") == "" {
				t.Errorf("%s %s: %q, %q, %v; want %q, %q", c.method, c.path, res.Status, got, err, c.status, c.body)
			}
			if res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %v", c.method, c.path, res.Header)
			}
		}
	}
}

// Answers to download that clients repeat have a phrase, too. Clients have words of their own for a 404, and its connection stays open.
func TestReasonPhraseByStatus(t *testing.T) {
	const next = "; try again, and if that fails, ask the operator of this proxy"
	soon := time.Now().Add(time.Minute) // so that no machine is too slow to have it say how long ago that was
	for _, c := range []struct {
		err      error
		path     string
		status   string
		keepOpen bool
	}{
		{modproxy.ErrUnavailable, base + "/versions", "502 Bad Gateway (unavailable; try again, and if that fails, ask the operator of this proxy)", false},
		{modproxy.ErrUnavailable, base + "/1.1.0/download", "502 Bad Gateway (unavailable; try again, and if that fails, ask the operator of this proxy)", false},
		{&modproxy.FetchFailed{Time: soon, Err: &modproxy.NoSpace{Err: errors.New("the disk is full")}}, base + "/1.1.0/download", "507 Insufficient Storage (no space: the disk is full; ask the operator of this proxy)", false},
		{modproxy.ErrDenied, base + "/1.1.0/download", "403 Forbidden", true},
		{modproxy.ErrNotFound, base + "/versions", "404 Not Found", true},
		{modproxy.ErrDenied, providers + "/versions", "409 Conflict (denied; ask the operator of this proxy)", false},
		{modproxy.ErrDenied, mirrors + "/index.json", "409 Conflict (denied; ask the operator of this proxy)", false},
		{modproxy.ErrNotFound, mirrors + "/index.json", "404 Not Found", true},
		{errors.New(strings.Repeat("a", 5000)), base + "/versions", "500 Internal Server Error (" + strings.Repeat("a", 600-len(next)) + "..." + next + ")", false},
	} {
		server := failingServer(t, c.err, false)
		for _, protocol := range []string{"HTTP/1.1", "HTTP/1.0"} {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "GET %s %s\r\nHost: x\r\n\r\n", c.path, protocol)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(res.Body); err != nil {
				t.Errorf("%s: %v", c.path, err)
			}
			if res.Status != c.status || res.Close != (!c.keepOpen || protocol == "HTTP/1.0") || res.Proto != protocol {
				t.Errorf("%s %s: %q %s, close %v; want %q", protocol, c.path, res.Status, res.Proto, res.Close, c.status)
			}
			conn.Close()
		}
	}
}

// A request with a body is answered by net/http, which handles the rest of the body.
func TestReasonPhraseOfRequestWithBody(t *testing.T) {
	server := failingServer(t, modproxy.ErrDenied, false)
	r, err := http.NewRequest("GET", server.URL+base+"/versions", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Status != "403 Forbidden" {
		t.Error(res.Status)
	}
}
