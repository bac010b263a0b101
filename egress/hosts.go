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

	"github.com/modproxy/modproxy/fair"
	"github.com/modproxy/modproxy/internal/hedge"
)

const (
	// requestsPerHost bounds the requests that one host has under way by https, on however few connections. Servers
	// take 100 on one connection, or more, but for odd ones.
	requestsPerHost = connsPerHost
	requestsWaiting = 4096        // for one host
	firstWait       = time.Second // for the connection that another request makes
	oldFor          = time.Hour   // for which a host is asked by HTTP/1.1 that does not speak HTTP/2
	maxConnections  = 8           // that end before the answer to one request
	maxHosts        = 1024        // that are remembered, beside those that are asked
)

// hosts are those that are asked by https. They are safe for concurrent use.
type hosts struct {
	mu sync.Mutex
	of map[string]*host // by host and port
}

// host is asked by https. Requests that would all make a connection to it wait for the one that the first of them
// makes: all of them may share it.
type host struct {
	turns  *fair.Turns // of the requests under way
	hedged hedge.Budget
	users  int // guarded by hosts.mu: requests under way and those that wait

	mu     sync.Mutex
	first  chan struct{} // closed when the connection that is being made is there, or has failed; nil if none is
	alone  bool          // does not offer HTTP/2: no request shares a connection with others
	offers bool          // HTTP/2
	spoke  bool          // has answered by HTTP/2
	old    time.Time     // until then it is asked by HTTP/1.1, although it offers HTTP/2
}

// enter waits for a turn to ask where t is. leave gives it back.
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
	turn, err := h.turns.Await(ctx, "")
	if err != nil {
		gone()
		return nil, nil, err
	}
	return h, sync.OnceFunc(func() { turn.Give(); gone() }), nil
}

// get returns the host where t is. It is called with mu held.
func (hs *hosts) get(t target) *host {
	name := t.hostport()
	h := hs.of[name]
	if h == nil {
		if len(hs.of) >= maxHosts {
			maps.DeleteFunc(hs.of, func(_ string, h *host) bool { return h.users == 0 })
		}
		h = &host{turns: fair.New(requestsPerHost, requestsPerHost, 0, requestsWaiting)}
		hs.of[name] = h
	}
	return h
}

// at returns the host where t is.
func (hs *hosts) at(t target) *host {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.get(t)
}

// knock waits for the first connection while another request makes it, but not for long: another one may come sooner.
// Otherwise r makes it: in is called when it is there, or r has failed.
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

// known reports whether HTTP/2 has failed, and whether it was not offered.
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

// overtaken tells that a request by the protocol that h offers hung, and was answered by HTTP/1.1 meanwhile.
func (h *host) overtaken() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.offers && !h.spoke {
		h.old = time.Now().Add(oldFor)
	}
}

// fails reports whether err, the outcome of a request by HTTP/2, says that HTTP/2 fails: it has never succeeded.
// That a request was given up says nothing.
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

// sendSecure sends one request by https, by HTTP/2 where that is offered. Archives come by HTTP/1.1: what is large
// neither waits on a connection that is shared, nor holds others up there, and takes all that TCP gives it. A hedge has a
// connection of its own: the first may hang with its connection.
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

// askShared sends one request by the protocol that h offers. When it is the first by HTTP/2 and fails, it is sent by
// HTTP/1.1, unless that would have it wait twice.
func (c *Client) askShared(r *http.Request, h *host, alone bool) (resp *http.Response, err error) {
	in := func() {}
	if !alone {
		if in, err = h.knock(r.Context()); err != nil {
			return nil, err
		}
		defer in()
	}
	shared, connections := false, 0
	ctx, cancel := context.WithCancelCause(r.Context()) // it ends with r's, which governs the body
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if connections++; connections > maxConnections { // package net/http has no such bound
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
	if err = broken(err); err != nil && r.Context().Err() != nil || !h.fails(err) { // the caller's end is no failure
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

// broken returns err, of a request by HTTP/2 or its body, as what it is to callers: the end of a connection is
// [io.ErrUnexpectedEOF], if the server has ended a part of it, too.
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

// leaving is the body of an answer. The turn of its request ends with it.
type leaving struct {
	io.ReadCloser
	shared bool // by HTTP/2
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
