package egress_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/egress"
)

// proto answers with the protocol of the request.
func proto(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }

// askAll requests u n times, width at a time, and returns the number of each response.
func askAll(t *testing.T, c *egress.Client, r egress.Request, n, width int) map[string]int {
	t.Helper()
	answers := map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range width {
		group.Go(func() {
			for range n / width {
				body, err := fetch(t.Context(), c, r)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				answers[string(body)]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return answers
}

// TestConnectionsAreKeptAndShared: requests to one host, including the first ones, share a connection with HTTP/2, and reuse
// idle connections without it. Archives have connections of their own.
func TestConnectionsAreKeptAndShared(t *testing.T) {
	for _, tt := range []struct {
		scheme  string
		archive bool
		width   int
		proto   string
	}{
		{"h2", false, 20, "HTTP/2.0"},
		{"h2", false, 1, "HTTP/2.0"},
		{"h2", true, 1, "HTTP/1.1"},
		{"https", false, 1, "HTTP/1.1"},
	} {
		s := serve(t, tt.scheme, "127.0.0.1", proto)
		c := client(t, up())
		r := egress.Request{URL: s.at("https", "up.test", "/"), Archive: tt.archive}
		for range 2 { // the second time after all have ended
			if answers := askAll(t, c, r, 20, tt.width); answers[tt.proto] != 20 {
				t.Errorf("%v: answered by %v", tt, answers)
			}
		}
		if n := s.conns.Load(); n != 1 {
			t.Errorf("%v: %d connections for 40 requests", tt, n)
		}
	}
}

// TestPostByHTTP2: a body is sent again if the first attempt with HTTP/2 fails.
func TestPostByHTTP2(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, io.MultiReader(strings.NewReader(r.Proto+" "), r.Body))
	}
	s := serve(t, "h2", "127.0.0.1", echo)
	bad := frames(t, func(net.Conn) {}, echo)
	c := client(t, up())
	for s, want := range map[*server]string{s: "HTTP/2.0 want", bad: "HTTP/1.1 want"} {
		resp, err := c.Post(t.Context(), egress.Request{URL: s.at("https", "up.test", "/")}, []byte("want"))
		if err != nil {
			t.Error(err)
		} else if body := read(t, resp); body != want {
			t.Errorf("%q; want %q", body, want)
		}
	}
}

// TestBoundOnRequests: one host has at most 64 requests in progress, on any number of connections. A slot ends with the body,
// read or not.
func TestBoundOnRequests(t *testing.T) {
	var mu sync.Mutex
	var now, most int
	full, goOn := make(chan struct{}), make(chan struct{})
	isFull := sync.OnceFunc(func() { close(full) })
	s := serve(t, "h2", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/held" {
			return
		}
		mu.Lock()
		now++
		most = max(most, now)
		if now == 64 {
			isFull()
		}
		mu.Unlock()
		<-goOn
		mu.Lock()
		now--
		mu.Unlock()
	})
	c := client(t, up())
	var group sync.WaitGroup
	for range 80 {
		group.Go(func() {
			resp, err := c.Get(t.Context(), egress.Request{URL: s.at("https", "up.test", "/held")})
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	<-full
	for _, archive := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		r := egress.Request{URL: s.at("https", "up.test", "/"), Archive: archive}
		if _, err := fetch(ctx, c, r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one more: %v", err)
		}
		cancel()
	}
	close(goOn)
	group.Wait()
	if most != 64 || s.conns.Load() != 1 {
		t.Errorf("%d at a time on %d connections", most, s.conns.Load())
	}
}

// TestConnectionsAreNotSharedBetweenNames: a connection is for one name. If two names have one address now, that proves nothing
// about the policy for the other name.
func TestConnectionsAreNotSharedBetweenNames(t *testing.T) {
	s := serve(t, "h2", "127.0.0.1", proto)
	c := client(t, up("two.test"))
	for _, name := range []string{"up.test", "two.test", "up.test"} {
		if _, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", name, "/")}); err != nil {
			t.Error(err)
		}
	}
	_, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", "evil.test", "/")})
	if !errors.Is(err, egress.ErrRefused) {
		t.Errorf("a name that the policy does not allow: %v", err)
	}
	if n := s.conns.Load(); n != 2 {
		t.Errorf("%d connections for two names", n)
	}
}

// TestBodiesByHTTP2: the limits on a body apply with HTTP/2.
func TestBodiesByHTTP2(t *testing.T) {
	s := serve(t, "h2", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Write(bytes.Repeat([]byte("x"), 5000))
		case "/broken":
			io.WriteString(w, "part")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/slow":
			io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
			hang(r)
		case "/silent":
			hang(r)
		}
	})
	given := map[string]*egress.Client{"/slow": client(t, up()), "/silent": client(t, up())}
	given["/slow"].SetTimes(time.Minute, 200*time.Millisecond, time.Minute)
	given["/silent"].SetTimes(200*time.Millisecond, time.Minute, time.Minute)
	patient := client(t, up())
	var late net.Error
	for path, ok := range map[string]func(error) bool{
		"/large":  func(err error) bool { return errors.Is(err, egress.ErrTooLarge) },
		"/slow":   func(err error) bool { return errors.Is(err, egress.ErrTooSlow) },
		"/silent": func(err error) bool { return errors.As(err, &late) && late.Timeout() },
		"/broken": func(err error) bool { return err != nil },
		"/":       func(err error) bool { return err == nil },
	} {
		c := cmp.Or(given[path], patient)
		if _, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", "up.test", path), MaxBytes: 1000}); !ok(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// frames starts a server that offers HTTP/2 and calls bad after the client's preface and settings. With HTTP/1.1 it answers
// with good.
func frames(t *testing.T, bad func(net.Conn), good http.HandlerFunc) *server {
	t.Helper()
	return serve(t, "h2", "127.0.0.1", good, func(s *http.Server) {
		s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
			"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
				defer conn.Close()
				if _, err := io.ReadFull(conn, make([]byte, 24+9)); err == nil {
					bad(conn)
				}
			},
		}
	})
}

// TestHTTP2ThroughProxies: connections are shared through a site's proxy, too.
func TestHTTP2ThroughProxies(t *testing.T) {
	for _, scheme := range []string{"http", "https", "socks5"} {
		s, p := serve(t, "h2", "127.0.0.1", proto), newSite(t, scheme)
		t.Setenv("HTTPS_PROXY", scheme+"://u:SECRET@"+p.address)
		c := client(t, egress.Config{Allow: []string{"far.test"}, Resolver: names{"far.test": {"93.184.215.14"}}, NoHedging: true})
		answers := askAll(t, c, egress.Request{URL: s.at("https", "far.test", "/")}, 20, 10)
		if asked := p.Took(); answers["HTTP/2.0"] != 20 || len(asked) != 1 {
			t.Errorf("%s: answered by %v; asked for %q", scheme, answers, asked)
		}
	}
}

// TestEndedByCaller: a request that its caller cancels proves nothing about the host's HTTP/2.
func TestEndedByCaller(t *testing.T) {
	var asked atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := serve(t, "h2", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			cancel()
			hang(r)
		}
		proto(w, r)
	})
	c, r := client(t, up()), egress.Request{URL: s.at("https", "up.test", "/")}
	if _, err := fetch(ctx, c, r); err == nil || asked.Load() != 1 {
		t.Fatalf("error %v after %d requests", err, asked.Load())
	}
	if body, err := fetch(t.Context(), c, r); err != nil || string(body) != "HTTP/2.0" {
		t.Errorf("the next: %q, %v", body, err)
	}
}
