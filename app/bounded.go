package app

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// bounded accepts connections while fewer than a number are open. If all of them are, it closes the one that has been idle for
// longest, or the next one that becomes idle, so that clients between two requests keep no others waiting. The connections are those
// of its listener, not wrapped like those of netutil.LimitListener, so that net/http has the system send files.
type bounded struct {
	*net.TCPListener
	open   chan struct{} // an element for each
	full   atomic.Bool   // Accept waits for a place
	closed chan struct{}
	close  func() error

	mu    sync.Mutex
	conns map[*conn]bool
}

func newBounded(l *net.TCPListener, most int) *bounded {
	b := &bounded{TCPListener: l, open: make(chan struct{}, most), closed: make(chan struct{}), conns: map[*conn]bool{}}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return l.Close()
	})
	return b
}

// Accept returns [net.ErrClosed] when there was no place for another connection before Close.
func (b *bounded) Accept() (net.Conn, error) {
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

// changed is the ConnState of the server of the connections.
func (b *bounded) changed(of net.Conn, state http.ConnState) {
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

// closeIdle closes the connection that has been idle for longest, if there is one.
func (b *bounded) closeIdle() {
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

// Close does nothing the second time.
func (b *bounded) Close() error { return b.close() }
