package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
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

// URL returns http://user:password@127.0.0.1:port, for git's http.proxy, together
// with http.proxyAuthMethod=basic. It is secret: it belongs into the environment
// (GIT_CONFIG_COUNT), never into an argument. That environment must not have
// NO_PROXY, which goes around the tunnel.
func (s *Session) URL() string {
	u := url.URL{Scheme: "http", User: url.UserPassword(s.user, s.password), Host: s.tunnel.addr.String()}
	return u.String()
}

// Refused returns the first reason for which a connection was not made, or was cut:
// [ErrRefused], [ErrTooLarge], [ErrTooSlow] or an error of the network; nil if there
// was none. A refusal takes precedence over what came before it.
func (s *Session) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Received returns the number of bytes that came in so far, TLS included.
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

// fail notes why something went wrong, unless the session has ended.
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

// deny answers a request with why it failed.
func (s *Session) deny(w http.ResponseWriter, err error) {
	s.fail(err)
	status := http.StatusBadGateway
	if errors.Is(err, ErrRefused) {
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}

// connect serves CONNECT: what is sent through is the user's, and TLS.
func (s *Session) connect(w http.ResponseWriter, r *http.Request) error {
	to, err := parseHostport(r.RequestURI)
	if err != nil {
		return err
	}
	server, err := s.tunnel.client.connect(r.Context(), to)
	if err != nil {
		return err
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		s.relay(newEarlyConn(client, buffered.Reader), server)
	}
	return nil
}

// relay copies between client and server until both have ended, the session ends,
// its bound is reached or nothing has moved for too long. An error ends both
// directions, because what follows could not be whole.
func (s *Session) relay(client, server net.Conn) {
	hangUp := func() {
		client.Close()
		server.Close()
	}
	defer context.AfterFunc(s.ctx, hangUp)()
	patience := s.tunnel.client.idle
	idle := time.AfterFunc(patience, func() {
		s.fail(fmt.Errorf("%w: nothing moved on a connection in %v", ErrTooSlow, patience))
		hangUp()
	})
	defer idle.Stop()
	pass := func(dst, src net.Conn, count func(n int) error) {
		_, err := io.Copy(dst, counted{src, func(n int) error {
			idle.Reset(patience)
			return count(n)
		}})
		half, ok := dst.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			hangUp()
		}
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		pass(server, client, func(int) error { return nil })
	}()
	pass(client, server, s.count)
	<-sent
}

// counted is a reader that tells count how much it has read, and ends with its error.
type counted struct {
	io.Reader
	count func(n int) error
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if over := c.count(n); over != nil {
		return 0, over
	}
	return n, err
}

// forward serves a request for an http URL, which only an exception allows.
func (s *Session) forward(w http.ResponseWriter, r *http.Request) error {
	u, err := resolve(nil, r.URL.String())
	if err == nil && u.Scheme != "http" {
		err = fmt.Errorf("%w: https without CONNECT", ErrRefused)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	patience := s.tunnel.client.idle
	proxy := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL, pr.Out.Host = u, u.Host
			for _, name := range []string{"Proxy-Authorization", "Upgrade", "Connection"} {
				pr.Out.Header.Del(name)
			}
		},
		Transport:     roundTripper(s.tunnel.client.roundTrip),
		FlushInterval: -1,
		ErrorLog:      noLog,
		ModifyResponse: func(resp *http.Response) error {
			slow := newPace(resp.Body, 0, patience, func() {
				s.fail(fmt.Errorf("%s: %w: nothing came in %v", Redact(u), ErrTooSlow, patience))
				cancel()
			})
			resp.Body = struct {
				io.Reader
				io.Closer
			}{counted{slow, s.count}, resp.Body}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { s.deny(w, err) },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return nil
}
