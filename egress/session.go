package egress

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
)

// Session is one use of a [Tunnel]. It is safe for concurrent use.
type Session struct {
	tunnel         *Tunnel
	user, password string
	max            int64
	received       atomic.Int64

	ctx    context.Context // ends with the session, and so do its connections
	cancel context.CancelFunc
	using  sync.WaitGroup // requests being served; added to under tunnel.mu

	mu     sync.Mutex
	reason error
}

// URL is http://user:password@127.0.0.1:port, for git's http.proxy, together with
// http.proxyAuthMethod=basic. It is secret: it is handed over in the environment
// (GIT_CONFIG_COUNT), never as an argument. That environment must not have NO_PROXY,
// which goes around the tunnel.
func (s *Session) URL() string { return s.tunnel.url(s.user, s.password) }

// Refused is the first reason for which a connection was not made, or was cut:
// [ErrRefused], [ErrTooLarge], [ErrTooSlow] or an error of the network; nil if all
// went well. A refusal takes precedence over what came before it.
func (s *Session) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Received is the number of bytes that came in so far, TLS included.
func (s *Session) Received() int64 { return s.received.Load() }

// Close makes the session's credential worthless, cuts its connections and waits
// for their ends.
func (s *Session) Close() error {
	s.tunnel.mu.Lock()
	delete(s.tunnel.sessions, s.user)
	s.tunnel.mu.Unlock()
	s.end()
	return nil
}

func (s *Session) end() {
	s.cancel()
	s.using.Wait()
}

func (s *Session) knows(password string) bool {
	return subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) == 1
}

// fail notes why something went wrong. What goes wrong because the session ends
// is not noted.
func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil && (s.reason == nil || errors.Is(err, ErrRefused) && !errors.Is(s.reason, ErrRefused)) {
		s.reason = err
	}
}

// count counts n bytes that came in. At the bound it ends all connections.
func (s *Session) count(n int) error {
	if s.received.Add(int64(n)) <= s.max {
		return nil
	}
	err := fmt.Errorf("%w: more than %d bytes received", ErrTooLarge, s.max)
	s.fail(err)
	s.cancel()
	return err
}

// deny answers a request that came to nothing.
func (s *Session) deny(w http.ResponseWriter, err error) {
	s.fail(err)
	status := http.StatusBadGateway
	if errors.Is(err, ErrRefused) {
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}

// connect serves CONNECT: whatever is sent through is the user's, and TLS.
func (s *Session) connect(w http.ResponseWriter, r *http.Request) {
	to, err := parseHostport(r.RequestURI)
	if err != nil {
		s.deny(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	server, err := s.tunnel.client.connect(ctx, to)
	if err != nil {
		s.deny(w, err)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.deny(w, err)
		return
	}
	defer client.Close()
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	s.relay(&earlyConn{Conn: client, early: early}, server)
}

// forward serves a request for an http URL, which only an exception allows.
func (s *Session) forward(w http.ResponseWriter, r *http.Request) {
	u, to, err := settle(r.URL)
	if err == nil && !to.plain {
		err = fmt.Errorf("%w: https without CONNECT", ErrRefused)
	}
	if err != nil {
		s.deny(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	idle := s.tunnel.client.cfg.IdleTimeout
	proxy := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL, pr.Out.Host = u, u.Host
			for _, name := range []string{"Proxy-Authorization", "Upgrade", "Connection"} {
				pr.Out.Header.Del(name)
			}
		},
		Transport:     wire{s.tunnel.client},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(resp *http.Response) error {
			slow := newPace(resp.Body, 0, idle, func() {
				s.fail(fmt.Errorf("%s: %w: nothing came in %v", Redact(u), ErrTooSlow, idle))
				cancel()
			})
			resp.Body = struct {
				io.Reader
				io.Closer
			}{countedReader{slow, s}, resp.Body}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { s.deny(w, err) },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// countedReader counts what a session receives.
type countedReader struct {
	io.Reader
	session *Session
}

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if over := c.session.count(n); over != nil {
		return 0, over
	}
	return n, err
}
