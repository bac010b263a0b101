package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// oneConnection is a listener for a connection without a buffer.
type oneConnection chan net.Conn

func (o oneConnection) Accept() (net.Conn, error) {
	c, ok := <-o
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (o oneConnection) Close() error   { close(o); return nil }
func (o oneConnection) Addr() net.Addr { return &net.TCPAddr{} }

// deafConnection reads nothing more once it is deaf.
type deafConnection struct {
	net.Conn
	deaf atomic.Bool
	left chan struct{}
}

func (d *deafConnection) Read(p []byte) (int, error) {
	if d.deaf.Load() {
		<-d.left
	}
	return d.Conn.Read(p)
}

// A client of HTTP/2 that reads nothing more does not hold its connection.
func TestDeafClientOfHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(deafTimeout))
			w.Write(make([]byte, 1<<20))
		}), zap.NewNop())
		var only http.Protocols
		only.SetUnencryptedHTTP2(true)
		server.Protocols = &only
		left := make(chan time.Duration, 1)
		start := time.Now()
		server.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				left <- time.Since(start)
			}
		}
		listener := make(oneConnection)
		go server.Serve(listener)
		defer server.Close()

		client := &deafConnection{left: make(chan struct{})}
		transport := &http.Transport{Protocols: &only, DialContext: func(context.Context, string, string) (net.Conn, error) {
			var there net.Conn
			client.Conn, there = net.Pipe()
			listener <- there
			return client, nil
		}}
		answer, err := (&http.Client{Transport: transport}).Get("http://proxy.test/")
		if err != nil {
			t.Fatal(err)
		}
		client.deaf.Store(true)
		if after := <-left; after > 3*deafTimeout {
			t.Errorf("it was closed after %v", after)
		}
		close(client.left)
		answer.Body.Close()
		transport.CloseIdleConnections()
	})
}
