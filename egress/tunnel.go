package egress

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Tunnel is a forward proxy on a loopback port, for programs that connect by
// themselves. It holds them to the policy of its [Client], and serves only those
// who have the credential of a [Session]. It is safe for concurrent use.
type Tunnel struct {
	client *Client
	addr   netip.AddrPort
	server *http.Server
	stop   func() bool // of the context's hold on the tunnel

	mu       sync.Mutex
	sessions map[string]*Session // by user name
	closed   bool
}

const (
	tunnelConns   = 512 // at once, of all sessions
	tunnelHeaders = 10 * time.Second
)

// ListenTunnel starts a Tunnel. It ends with ctx, or by Close.
//
// The tunnel uses the proxies of the environment as requests do.
func (c *Client) ListenTunnel(ctx context.Context) (*Tunnel, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("tunnel: %w", err)
	}
	t := &Tunnel{client: c, sessions: map[string]*Session{}}
	t.addr = ln.Addr().(*net.TCPAddr).AddrPort()
	t.server = &http.Server{
		Handler:           t,
		ReadHeaderTimeout: tunnelHeaders,
		IdleTimeout:       c.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	c.policy.own.Store(t.addr, true)
	t.stop = context.AfterFunc(ctx, func() { t.close() })
	go t.server.Serve(netutil.LimitListener(ln, tunnelConns))
	return t, nil
}

// Close ends the tunnel and all its sessions.
func (t *Tunnel) Close() error {
	t.stop()
	return t.close()
}

func (t *Tunnel) close() error {
	t.mu.Lock()
	t.closed = true
	sessions := t.sessions
	t.sessions = map[string]*Session{}
	t.mu.Unlock()
	err := t.server.Close()
	for _, s := range sessions {
		s.end()
	}
	t.client.policy.own.Delete(t.addr)
	return err
}

// Session opens the tunnel for one user, say one git fetch, with a credential of
// its own, until it has received maxBytes. On a closed tunnel it is of no use.
// The caller closes it.
func (t *Tunnel) Session(maxBytes int64) *Session {
	s := &Session{tunnel: t, max: maxBytes, user: rand.Text(), password: rand.Text()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		s.reason = errors.New("the tunnel is closed")
		s.end()
		return s
	}
	t.sessions[s.user] = s
	return s
}

// ServeHTTP serves one request of a session. It is exported for package net/http only.
func (t *Tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := t.session(r)
	if s == nil {
		w.Header().Set("Proxy-Authenticate", `Basic realm="modproxy"`)
		http.Error(w, "this tunnel is for modproxy's own use", http.StatusProxyAuthRequired)
		return
	}
	defer s.using.Done()
	if r.Method == http.MethodConnect {
		s.connect(w, r)
	} else {
		s.forward(w, r)
	}
}

// session is the session that r has the credential of, marked as in use, or nil.
func (t *Tunnel) session(r *http.Request) *Session {
	asBasic := http.Request{Header: http.Header{"Authorization": r.Header.Values("Proxy-Authorization")}}
	user, password, ok := asBasic.BasicAuth()
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[user]
	if s == nil || !s.knows(password) {
		return nil
	}
	s.using.Add(1)
	return s
}

func (t *Tunnel) url(user, password string) string {
	u := url.URL{Scheme: "http", User: url.UserPassword(user, password), Host: t.addr.String()}
	return u.String()
}
