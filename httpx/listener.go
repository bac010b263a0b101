package httpx

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy/internal/slots"
)

// A Listener accepts a bounded number of connections, and closes idle ones if more clients connect. If all places are taken, it
// closes the connection that was idle for longest, or the next one that becomes idle. Its connections are [io.ReaderFrom], unlike
// those of netutil.LimitListener, so that net/http lets the system send files. A server of the connections must have
// [Listener.ConnState] and [ConnContext].
type Listener struct {
	*net.TCPListener
	places  slots.Semaphore // for connections
	full    atomic.Bool     // Accept waits for a place
	closing context.Context // ends when Close is called
	close   func() error

	mu    sync.Mutex
	conns map[*conn]bool
}

// NewListener returns a listener with most places.
func NewListener(l *net.TCPListener, most int) *Listener {
	closing, end := context.WithCancel(context.Background())
	return &Listener{
		TCPListener: l, places: slots.NewSemaphore(most), closing: closing, conns: map[*conn]bool{},
		close: sync.OnceValue(func() error {
			end()
			return l.Close()
		}),
	}
}

// Accept waits for a place and a connection. It returns [net.ErrClosed] if all places are taken until Close.
func (b *Listener) Accept() (net.Conn, error) {
	give, ok := b.places.Try()
	if !ok {
		b.full.Store(true)
		b.closeIdle()
		var err error
		if give, err = b.places.Take(b.closing); err != nil {
			return nil, net.ErrClosed
		}
		b.full.Store(false)
	}
	accepted, err := b.AcceptTCP()
	if err != nil {
		give()
		return nil, err
	}
	var c *conn
	c = newConn(accepted, sync.OnceFunc(func() {
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
		give()
	}))
	b.mu.Lock()
	b.conns[c] = true
	b.mu.Unlock()
	return c, nil
}

// ConnState is the field of [http.Server] for these connections.
func (b *Listener) ConnState(of net.Conn, state http.ConnState) {
	if encrypted, ok := of.(*tls.Conn); ok {
		of = encrypted.NetConn()
	}
	c, ok := of.(*conn)
	switch {
	case !ok:
	case state == http.StateActive:
		c.idle.Store(0)
		c.used.Store(true)
	case state == http.StateIdle:
		c.idle.Store(time.Now().UnixNano())
		if b.full.CompareAndSwap(true, false) {
			c.Close()
		}
	}
}

// firstRequest is the time in which the first request of a connection must come, so that it counts as busy. It is that of
// [http.Server.Shutdown].
const firstRequest = 5 * time.Second

// Busy returns the number of connections that are not idle: a request was sent, or the first request may still come.
func (b *Listener) Busy() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if c.idle.Load() == 0 && (c.used.Load() || time.Since(c.accepted) < firstRequest) {
			n++
		}
	}
	return n
}

// closeIdle closes the connection that was idle for longest, if a connection is idle.
func (b *Listener) closeIdle() {
	var longest *conn
	var since int64
	b.mu.Lock()
	for c := range b.conns {
		if idle := c.idle.Load(); idle > 0 && (longest == nil || idle < since) {
			longest, since = c, idle
		}
	}
	b.mu.Unlock()
	if longest != nil {
		longest.Close()
	}
}

// Close closes the listener, and not its connections. It does nothing the second time.
func (b *Listener) Close() error { return b.close() }
