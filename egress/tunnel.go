package egress

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Tunnel is a forward proxy on a loopback port, for programs that connect by
// themselves. It holds them to the policy of its [Client], and serves only requests
// with the credential of a [Session]. It is safe for concurrent use.
type Tunnel struct {
	client *Client
	addr   netip.AddrPort
	server *http.Server

	mu       sync.Mutex
	sessions map[string]*Session // by user name; nil once the tunnel is closed
}

const (
	tunnelConns   = 512 // at once, of all sessions
	tunnelHeaders = 10 * time.Second
)

var noLog = log.New(io.Discard, "", 0)

// ListenTunnel starts a Tunnel, which connects through the proxies of the
// environment as requests do. The caller closes it.
func (c *Client) ListenTunnel(ctx context.Context) (*Tunnel, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("tunnel: %w", err)
	}
	t := &Tunnel{client: c, sessions: map[string]*Session{}, addr: ln.Addr().(*net.TCPAddr).AddrPort()}
	t.server = &http.Server{
		Handler:           http.HandlerFunc(t.serve),
		ReadHeaderTimeout: tunnelHeaders,
		IdleTimeout:       c.idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          noLog,
	}
	c.policy.own.Store(t.addr, nil)
	go t.server.Serve(netutil.LimitListener(ln, tunnelConns))
	return t, nil
}

// Close ends the tunnel and all its sessions.
func (t *Tunnel) Close() error {
	t.mu.Lock()
	sessions := t.sessions
	t.sessions = nil
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
	if t.sessions == nil {
		s.fail(errors.New("the tunnel is closed"))
		s.end()
		return s
	}
	t.sessions[s.user] = s
	return s
}

func (t *Tunnel) serve(w http.ResponseWriter, r *http.Request) {
	s := t.session(r)
	if s == nil {
		w.Header().Set("Proxy-Authenticate", `Basic realm="modproxy"`)
		http.Error(w, "this tunnel is for modproxy's own use", http.StatusProxyAuthRequired)
		return
	}
	defer s.using.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	answer := s.forward
	if r.Method == http.MethodConnect {
		answer = s.connect
	}
	if err := answer(w, r.WithContext(ctx)); err != nil {
		s.deny(w, err)
	}
}

// session returns the session that r has the credential of, marked as in use, or nil.
func (t *Tunnel) session(r *http.Request) *Session {
	asBasic := http.Request{Header: http.Header{"Authorization": r.Header.Values("Proxy-Authorization")}}
	user, password, ok := asBasic.BasicAuth()
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[user]
	if s == nil || subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) != 1 {
		return nil
	}
	s.using.Add(1)
	return s
}
