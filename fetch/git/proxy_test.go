package git_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch/git"
)

// proxy is a forward proxy that remembers, refuses and counts.
type proxy struct {
	*httptest.Server
	refuse   map[string]bool // by host:port
	received atomic.Int64
	max      atomic.Int64 // of received, as the last session has it

	mu      sync.Mutex
	hops    []string
	refused error
}

func newProxy(t testing.TB) *proxy {
	p := &proxy{refuse: map[string]bool{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Server.Close)
	return p
}

// tunnel lets one session at a time through, which is all that tests need.
func (p *proxy) tunnel(maxBytes int64) (git.Session, error) {
	p.max.Store(maxBytes)
	return session{p}, nil
}

type session struct{ p *proxy }

func (s session) URL() string {
	return strings.Replace(s.p.URL, "http://", "http://session:pr0xy-s3cret@", 1)
}
func (s session) Received() int64 { return s.p.received.Load() }
func (s session) Close() error    { return nil }
func (s session) Refused() error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.refused
}

func (p *proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == nil {
		p.refused = err
	}
}

func (p *proxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hops
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := parseProxyAuth(r); user != "session" || password != "pr0xy-s3cret" {
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	if r.Method == http.MethodConnect && r.Header.Get("Authorization") != "" {
		p.fail(errors.New("the proxy was shown a credential that is not for it"))
	}
	p.mu.Lock()
	p.hops = append(p.hops, r.Host)
	p.mu.Unlock()
	if p.refuse[r.Host] {
		p.fail(fmt.Errorf("%w: %s", egress.ErrRefused, r.Host))
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if r.Method != http.MethodConnect {
		p.forward(w, r)
		return
	}
	to, err := net.Dial("tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		to.Close()
		return
	}
	fmt.Fprint(from, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { io.Copy(to, buffered); to.Close() }()
	p.copy(from, to)
	from.Close()
	to.Close()
}

func (p *proxy) forward(w http.ResponseWriter, r *http.Request) {
	r.RequestURI = ""
	r.Header.Del("Proxy-Authorization")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	for key, values := range answer.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.StatusCode)
	p.copy(w, answer.Body)
}

func (p *proxy) copy(w io.Writer, r io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		if p.received.Add(int64(n)) > p.max.Load() {
			p.fail(egress.ErrTooLarge)
			panic(http.ErrAbortHandler)
		}
		if _, writeErr := w.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

func parseProxyAuth(r *http.Request) (user, password string, ok bool) {
	return (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
}
