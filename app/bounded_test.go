package app

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// As many connections are accepted as may be open, and the next one when one of them has ended. Their type lets net/http
// have the system send files.
func TestBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBounded(inner.(*net.TCPListener), 2)
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := b.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	var first net.Conn
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 2 {
		first = <-accepted
		defer first.Close()
		if _, ok := first.(io.ReaderFrom); !ok {
			t.Errorf("%T is no io.ReaderFrom", first)
		}
	}
	select {
	case <-accepted:
		t.Error("a third connection was accepted beside two")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // which makes no place for another
	third := <-accepted
	defer third.Close()
	b.Close()
	b.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept, when there was no place: %v", err)
	}
}
