package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

const relayBuffer = 32 << 10

// relay copies between client and server until both have ended, the session ends,
// its bound is reached or nothing has moved for too long. It closes both.
func (s *Session) relay(client, server net.Conn) {
	hangUp := func() {
		client.Close()
		server.Close()
	}
	defer hangUp()
	defer context.AfterFunc(s.ctx, hangUp)()
	patience := s.tunnel.client.cfg.IdleTimeout
	idle := time.AfterFunc(patience, func() {
		s.fail(fmt.Errorf("%w: nothing moved on a connection in %v", ErrTooSlow, patience))
		hangUp()
	})
	defer idle.Stop()
	moved := func() { idle.Reset(patience) }

	sent := make(chan struct{})
	go func() {
		defer close(sent)
		pipe(server, client, func(int) error { moved(); return nil })
	}()
	pipe(client, server, func(n int) error { moved(); return s.count(n) })
	<-sent
}

// pipe copies src to dst and tells dst when it has ended. An error ends both
// directions, since nothing that follows could be whole.
func pipe(dst, src net.Conn, moved func(n int) error) {
	buf := make([]byte, relayBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if moved(n) != nil {
				break
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				break
			}
			continue
		}
		if err == io.EOF {
			if half, ok := dst.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
				return
			}
		}
		if err != nil {
			break
		}
	}
	src.Close()
	dst.Close()
}
