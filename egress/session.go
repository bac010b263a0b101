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
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

// Session is a forward proxy on a loopback port, for one run of a program that connects by itself, such as one git fetch. It
// applies the policy of its [Client] to the program, and serves only requests with its credential. It is safe for concurrent
// use.
type Session struct {
	client   *Client
	addr     netip.AddrPort
	server   *http.Server
	password string
	max      int64
	received atomic.Int64

	ctx    context.Context // ends with the session and ends its connections
	cancel context.CancelFunc

	mu     sync.Mutex
	using  sync.WaitGroup // requests being served; added to under mu while ctx lasts
	reason error
}

const sessionConns = 64 // concurrent connections

var noLog = log.New(io.Discard, "", 0)

// Session starts a session that may receive maxBytes. It uses the environment's proxies. The caller closes it.
func (c *Client) Session(maxBytes int64) (*Session, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	s := &Session{client: c, addr: ln.Addr().(*net.TCPAddr).AddrPort(), password: rand.Text(), max: maxBytes}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.server = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ReadHeaderTimeout: connectTimeout,
		IdleTimeout:       c.idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          noLog,
	}
	c.policy.own.Store(s.addr, nil)
	go s.server.Serve(netutil.LimitListener(ln, sessionConns))
	return s, nil
}

// Close ends the session, closes its connections and waits for their ends.
func (s *Session) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	err := s.server.Close()
	s.using.Wait()
	s.client.policy.own.Delete(s.addr)
	return err
}

// URL returns http://user:password@127.0.0.1:port, for git's http.proxy, together with http.proxyAuthMethod=basic. It is
// secret: pass it in the environment (GIT_CONFIG_COUNT), never in an argument. That environment must not contain NO_PROXY,
// which bypasses the session.
func (s *Session) URL() string {
	u := url.URL{Scheme: "http", User: url.UserPassword("modproxy", s.password), Host: s.addr.String()}
	return u.String()
}

// Refused returns the reason why a connection was not made, or was closed: [ErrRefused], [ErrTooLarge], [ErrTooSlow] or an error
// of the network. Of several errors it returns the first [ErrRefused], or the first error if none is an ErrRefused. Without a
// failure it is nil.
func (s *Session) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Received returns the number of bytes received so far, including TLS.
func (s *Session) Received() int64 { return s.received.Load() }

// fail records the reason for a failure, unless the session has ended.
func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil && (s.reason == nil || errors.Is(err, ErrRefused) && !errors.Is(s.reason, ErrRefused)) {
		s.reason = err
	}
}

func (s *Session) serve(w http.ResponseWriter, r *http.Request) {
	asBasic := http.Request{Header: http.Header{"Authorization": r.Header.Values("Proxy-Authorization")}}
	_, password, _ := asBasic.BasicAuth()
	s.mu.Lock()
	begins := s.ctx.Err() == nil && subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) == 1
	if begins {
		s.using.Add(1)
	}
	s.mu.Unlock()
	if !begins {
		w.Header().Set("Proxy-Authenticate", `Basic realm="modproxy"`)
		http.Error(w, "this proxy is for modproxy's own use", http.StatusProxyAuthRequired)
		return
	}
	defer s.using.Done()
	answer := s.forward
	if r.Method == http.MethodConnect {
		answer = s.connect
	}
	if err := outward(answer(w, r)); err != nil {
		s.fail(err)
		status := http.StatusBadGateway
		if errors.Is(err, ErrRefused) {
			status = http.StatusForbidden
		}
		http.Error(w, err.Error(), status)
	}
}

// connect serves CONNECT: the program itself encrypts the traffic.
func (s *Session) connect(w http.ResponseWriter, r *http.Request) error {
	to, err := parseHostport(r.RequestURI)
	if err != nil {
		return err
	}
	server, err := s.client.connect(r.Context(), to)
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
		s.relay(bufferedConn{client, buffered}, server)
	}
	return nil
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
	idle := s.idle(cancel)
	defer idle.Stop()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL, pr.Out.Host = u, u.Host
			for _, name := range []string{"Proxy-Authorization", "Upgrade", "Connection"} {
				pr.Out.Header.Del(name)
			}
		},
		Transport:     roundTripper(func(r *http.Request) (*http.Response, error) { return s.client.roundTrip(r, sending{}) }),
		FlushInterval: -1,
		ErrorLog:      noLog,
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{s.counted(resp.Body, idle), resp.Body}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, failed error) { err = failed },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return err
}

// relay copies between client and server until both have ended, the session ends, its limit is reached or the connection was
// idle for too long. An error ends both directions, because the rest could not be complete. An end also ends both directions if
// the other side cannot receive it alone: the client never can, and would wait.
func (s *Session) relay(client, server net.Conn) {
	hangUp := func() {
		client.Close()
		server.Close()
	}
	defer context.AfterFunc(s.ctx, hangUp)()
	idle := s.idle(hangUp)
	defer idle.Stop()
	pass := func(dst net.Conn, src io.Reader) {
		_, err := io.Copy(dst, src)
		half, ok := dst.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			hangUp()
		}
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		pass(server, readerFunc(func(p []byte) (int, error) {
			n, err := client.Read(p)
			idle.Reset(s.client.idle)
			return n, err
		}))
	}()
	pass(client, s.counted(server, idle))
	<-sent
}

// idle calls hangUp if it is not reset for too long.
func (s *Session) idle(hangUp func()) *time.Timer {
	patience := s.client.idle
	return time.AfterFunc(patience, func() {
		s.fail(fmt.Errorf("%w: nothing moved on a connection in %v", ErrTooSlow, patience))
		hangUp()
	})
}

// counted counts the bytes that the session receives from r, and resets idle. At the session's limit it ends all connections.
func (s *Session) counted(r io.Reader, idle *time.Timer) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		idle.Reset(s.client.idle)
		if s.received.Add(int64(n)) > s.max {
			err = fmt.Errorf("%w: more than %d bytes received", ErrTooLarge, s.max)
			s.fail(err)
			s.cancel()
			return 0, err
		}
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
