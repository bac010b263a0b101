package httpx

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// The listener accepts as many connections as may be open, and the next one when one of them ends. Their type lets the system send
// files.
func TestListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := NewListener(inner.(*net.TCPListener), 2)
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

// An idle connection makes a place for a new one: the connection that was idle for longest, and never one with a request.
func TestListenerClosesIdle(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := NewListener(inner.(*net.TCPListener), 3)
	busy, end := make(chan bool, 1), make(chan bool)
	server := &http.Server{ConnState: b.ConnState, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			busy <- true
			<-end
		}
	})}
	go server.Serve(b)
	defer server.Close()
	ask := func(path string) error {
		client := &http.Client{Transport: &http.Transport{}} // each with a connection of its own, which it keeps
		answer, err := client.Get("http://" + inner.Addr().String() + path)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	long := make(chan error)
	go func() { long <- ask("/long") }()
	<-busy
	for range 20 {
		if err := ask("/"); err != nil {
			t.Error(err)
		}
	}
	close(end)
	if err := <-long; err != nil {
		t.Error(err)
	}
}
