package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/hedge"
	"github.com/modproxy/modproxy/internal/slots"
)

const (
	// requestsPerHost limits the requests in progress to one host over https, regardless of the number of connections. Nearly
	// all servers allow 100 or more on one connection.
	requestsPerHost = connsPerHost
	requestsWaiting = 4096        // per host
	firstWait       = time.Second // for a connection that another request is making
	oldFor          = time.Hour   // how long a host with broken HTTP/2 is requested with HTTP/1.1
	maxConnections  = 8           // that may end before the response to one request
	maxHosts        = 1024        // remembered hosts, in addition to those in use
)

// hosts are the hosts requested over https. They are safe for concurrent use.
type hosts struct {
	mu sync.Mutex
	of map[string]*host // by host and port
}

// host is the state of one host requested over https. Requests that would all open a connection to the host wait for the first
// one's connection, because they can probably share it.
type host struct {
	turns  *slots.Queue // of the requests in progress
	hedged hedge.Budget
	users  int // guarded by hosts.mu: requests in progress and waiting

	mu     sync.Mutex
	first  chan struct{} // closed when the connection in progress is made or has failed; nil: none is in progress
	alone  bool          // does not offer HTTP/2: requests do not share connections
	offers bool          // offers HTTP/2
	spoke  bool          // has answered with HTTP/2
	old    time.Time     // until then it is requested with HTTP/1.1, although it offers HTTP/2
}

// enter waits for a slot for a request to t. The caller calls leave to release it.
func (hs *hosts) enter(ctx context.Context, t target) (h *host, leave func(), err error) {
	hs.mu.Lock()
	h = hs.get(t)
	h.users++
	hs.mu.Unlock()
	gone := func() {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		h.users--
	}
	turn, err := h.turns.Await(ctx, "", modproxy.BroughtForward(ctx))
	if err != nil {
		gone()
		return nil, nil, err
	}
	return h, sync.OnceFunc(func() { turn.Give(); gone() }), nil
}

// get returns the host of t. The caller holds mu.
func (hs *hosts) get(t target) *host {
	name := t.hostport()
	h := hs.of[name]
	if h == nil {
		if len(hs.of) >= maxHosts {
			maps.DeleteFunc(hs.of, func(_ string, h *host) bool { return h.users == 0 })
		}
		h = &host{turns: slots.New(requestsPerHost, requestsPerHost, 0, requestsWaiting)}
		hs.of[name] = h
	}
	return h
}

// at returns the host of t.
func (hs *hosts) at(t target) *host {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.get(t)
}

// knock waits for the first connection if another request is making it, but not for long: another connection may be ready
// sooner. Otherwise r makes it, and the caller calls in when the connection is made or r has failed.
func (h *host) knock(ctx context.Context) (in func(), err error) {
	h.mu.Lock()
	first := h.first
	if first == nil {
		h.first = make(chan struct{})
	}
	h.mu.Unlock()
	if first == nil {
		return sync.OnceFunc(h.open), nil
	}
	select {
	case <-first:
	case <-time.After(firstWait):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return func() {}, nil
}

func (h *host) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.first)
	h.first = nil
}

// known reports whether HTTP/2 has failed recently (old), and whether it is not offered (alone).
func (h *host) known() (old, alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.old), h.alone
}

func (h *host) learn(shared bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alone, h.offers = !shared, shared
}

// overtaken records that a request with the protocol that h offers hung, and that a hedge with HTTP/1.1 was answered first.
func (h *host) overtaken() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.offers && !h.spoke {
		h.old = time.Now().Add(oldFor)
	}
}

// fails records err, the outcome of a request with HTTP/2. It reports whether HTTP/2 seems broken: it has never succeeded. A
// cancelled request proves nothing.
func (h *host) fails(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spoke = h.spoke || err == nil
	if h.spoke || errors.Is(err, context.Canceled) {
		return false
	}
	h.old = time.Now().Add(oldFor)
	return true
}

// sendSecure sends one request over https, with HTTP/2 if the host offers it. Archives use HTTP/1.1: a large body then neither
// waits on a shared connection nor delays others there, and gets the full rate of TCP. A hedge has a connection of its own,
// because the first request's connection may hang.
func (c *Client) sendSecure(r *http.Request, t target, how sending, sent func()) (*http.Response, error) {
	h, leave, err := c.hosts.enter(r.Context(), t)
	if err != nil {
		return nil, err
	}
	sent()
	old, alone := h.known()
	send := func(r *http.Request) (*http.Response, error) { return c.askShared(r, h, alone) }
	switch {
	case how.hedge:
		send = c.fresh.RoundTrip
	case old || how.archive && !alone:
		send = c.single.RoundTrip
	}
	resp, err := send(r)
	if err != nil {
		leave()
		return nil, err
	}
	resp.Body = &leaving{resp.Body, resp.ProtoMajor == 2, leave}
	return resp, nil
}

// askShared sends one request with the protocol that h offers. If it is the first with HTTP/2 and fails, it is sent again with
// HTTP/1.1, unless it has timed out: that would be a second long wait.
func (c *Client) askShared(r *http.Request, h *host, alone bool) (resp *http.Response, err error) {
	in := func() {}
	if !alone {
		if in, err = h.knock(r.Context()); err != nil {
			return nil, err
		}
		defer in()
	}
	shared, connections := false, 0
	ctx, cancel := context.WithCancelCause(r.Context()) // ends with r's context, which also governs the body
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if connections++; connections > maxConnections { // package net/http has no such limit
			cancel(errAway)
		}
		conn, _ := got.Conn.(*tls.Conn)
		shared = conn != nil && conn.ConnectionState().NegotiatedProtocol == "h2"
		h.learn(shared)
		in()
	}})
	resp, err = c.secure.RoundTrip(r.WithContext(ctx))
	if !shared {
		return resp, err
	}
	if err != nil && context.Cause(ctx) == errAway {
		err = errAway
	}
	if err = broken(err); err != nil && r.Context().Err() != nil || !h.fails(err) { // a cancelled request is not a failure of the host
		return resp, err
	}
	if isLate(err) {
		return nil, err
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return c.single.RoundTrip(again)
}

func isLate(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// broken returns err, of an HTTP/2 request or its body, in the form that callers expect: the end of a connection or of a stream
// is [io.ErrUnexpectedEOF].
func broken(err error) error {
	var conn *net.OpError
	switch {
	case err == nil, err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF), isLate(err), errors.As(err, &conn),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
}

var errAway = fmt.Errorf("%d connections ended before the answer", maxConnections)

// leaving is the body of a response. Its end releases the slot of the request.
type leaving struct {
	io.ReadCloser
	shared bool // over HTTP/2
	leave  func()
}

func (l *leaving) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil {
		l.leave()
	}
	if l.shared {
		err = broken(err)
	}
	return n, err
}

func (l *leaving) Close() error {
	defer l.leave()
	return l.ReadCloser.Close()
}
