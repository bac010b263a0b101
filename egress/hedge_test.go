package egress_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy/egress"
)

// hedging returns the configuration of up, with hedging.
func hedging() egress.Config {
	cfg := up()
	cfg.NoHedging = false
	return cfg
}

// hanging is a server that hangs for the first requests of each path. The beginning of the path determines where.
type hanging struct {
	first int // the number of requests per path that hang

	mu   sync.Mutex
	seen map[string][]string // the client addresses of the requests for a path
}

func (h *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	n := len(h.seen[r.URL.Path])
	h.seen[r.URL.Path] = append(h.seen[r.URL.Path], r.RemoteAddr)
	h.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/redirect") { // never hangs: on a busy machine it is late anyway
		http.Redirect(w, r, strings.Replace(r.URL.Path, "/redirect", "/nothing-behind", 1), http.StatusFound)
		return
	}
	if n < h.first {
		switch {
		case strings.HasPrefix(r.URL.Path, "/header"):
			w.Header().Set("Content-Length", "5")
			w.(http.Flusher).Flush()
			hang(r)
		case strings.HasPrefix(r.URL.Path, "/nothing"):
			hang(r)
		}
		return
	}
	io.WriteString(w, r.Method+" "+string(body))
}

// requests returns the number of requests for a path, and of their connections.
func (h *hanging) requests(path string) (n, conns int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	different := map[string]bool{}
	for _, addr := range h.seen[path] {
		different[addr] = true
	}
	return len(h.seen[path]), len(different)
}

// TestHedges: a hanging request is sent once more, on another connection: before and after the header, with each protocol, for
// archives, for requests with a body, and after a redirect.
func TestHedges(t *testing.T) {
	for _, scheme := range []string{"h2", "https", "http"} {
		h := &hanging{first: 1, seen: map[string][]string{}}
		s := serve(t, scheme, "127.0.0.1", h.ServeHTTP)
		c := client(t, hedging())
		var group sync.WaitGroup
		for _, path := range []string{"/nothing", "/header", "/redirect"} {
			for _, kind := range []string{"document", "archive", "post"} {
				if path == "/redirect" && kind == "post" {
					continue // Post follows no redirects
				}
				group.Go(func() {
					path := path + "-" + kind
					r := egress.Request{URL: s.at(strings.Replace(scheme, "h2", "https", 1), "up.test", path), Redirects: 1, Archive: kind == "archive"}
					want, resp, err := "GET ", (*http.Response)(nil), error(nil)
					if kind == "post" {
						want = "POST question"
						resp, err = c.Post(t.Context(), r, []byte("question"))
					} else {
						resp, err = c.Get(t.Context(), r)
					}
					if err != nil {
						t.Errorf("%s %s: %v", scheme, path, err)
						return
					}
					if got := read(t, resp); got != want {
						t.Errorf("%s %s: %q; want %q", scheme, path, got, want)
					}
					if n, conns := h.requests(strings.Replace(path, "/redirect", "/nothing-behind", 1)); n < 2 || conns < 2 {
						t.Errorf("%s %s: %d requests on %d connections", scheme, path, n, conns)
					}
				})
			}
		}
		group.Wait()
	}
}

// TestNoHedges: without hedging in the client, with NoHedging in the request, or with a spent budget, a request is sent only
// once.
func TestNoHedges(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     egress.Config
		request egress.Request
	}{
		"client":  {up(), egress.Request{}},
		"request": {hedging(), egress.Request{NoHedging: true}},
		"budget":  {hedging(), egress.Request{Budget: egress.NewBudget(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hanging{first: 1000, seen: map[string][]string{}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
				time.AfterFunc(4*time.Second, cancel) // long enough for a hedge
				h.ServeHTTP(w, r)
			})
			c.request.URL = s.at("https", "up.test", "/nothing")
			if _, err := client(t, c.cfg).Get(ctx, c.request); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if n, _ := h.requests("/nothing"); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
