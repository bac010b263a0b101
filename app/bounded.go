package app

import (
	"net"
	"sync"
)

// bounded accepts connections while fewer than a number are open. They are those of its listener, not wrapped like those of
// netutil.LimitListener, so that net/http has the system send files.
type bounded struct {
	*net.TCPListener
	open   chan struct{} // an element for each
	closed chan struct{}
	close  func() error
}

func newBounded(l *net.TCPListener, most int) *bounded {
	b := &bounded{TCPListener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
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
	case <-b.closed:
		return nil, net.ErrClosed
	}
	leave := func() { <-b.open }
	c, err := b.AcceptTCP()
	if err != nil {
		leave()
		return nil, err
	}
	return newConn(c, sync.OnceFunc(leave)), nil
}

// Close does nothing the second time.
func (b *bounded) Close() error { return b.close() }
