package httpx

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Listener accepts a bounded number of connections, and closes idle ones if more clients connect. If all places are taken, it
// closes the connection that was idle for longest, or the next one that becomes idle. Its connections are [io.ReaderFrom], unlike
// those of netutil.LimitListener, so that net/http lets the system send files. A server of the connections must have
// [Listener.ConnState] and [ConnContext].
type Listener struct {
	*net.TCPListener
	open   chan struct{} // has an element for each connection
	full   atomic.Bool   // Accept waits for a place
	closed chan struct{}
	close  func() error

	mu    sync.Mutex
	conns map[*conn]bool
}

// NewListener returns a listener with most places.
func NewListener(l *net.TCPListener, most int) *Listener {
	b := &Listener{TCPListener: l, open: make(chan struct{}, most), closed: make(chan struct{}), conns: map[*conn]bool{}}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return l.Close()
	})
	return b
}

// Accept waits for a place and a connection. It returns [net.ErrClosed] if all places are taken until Close.
func (b *Listener) Accept() (net.Conn, error) {
	select {
	case b.open <- struct{}{}:
	default:
		b.full.Store(true)
		b.closeIdle()
		select {
		case b.open <- struct{}{}:
			b.full.Store(false)
		case <-b.closed:
			return nil, net.ErrClosed
		}
	}
	accepted, err := b.AcceptTCP()
	if err != nil {
		<-b.open
		return nil, err
	}
	var c *conn
	c = newConn(accepted, sync.OnceFunc(func() {
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
		<-b.open
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
	case state == http.StateIdle:
		c.idle.Store(time.Now().UnixNano())
		if b.full.CompareAndSwap(true, false) {
			c.Close()
		}
	}
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
