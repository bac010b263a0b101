package egress_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/egress"
)

// frame returns a frame of HTTP/2 (https://www.rfc-editor.org/rfc/rfc9113#section-4.1).
func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	header := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(header, flags), stream), payload...)
}

const (
	headersFrame, resetFrame, settingsFrame, pingFrame, goAwayFrame, continuationFrame = 1, 3, 4, 6, 7, 9

	endHeaders = 4
)

// TestHostileHTTP2: servers with a malicious HTTP/2 implementation delay a request no longer than slow ones, and do not cause
// endless connections. Afterwards they are requested with HTTP/1.1.
func TestHostileHTTP2(t *testing.T) {
	flood := func(conn net.Conn, frames []byte) {
		for {
			if _, err := conn.Write(frames); err != nil {
				return
			}
		}
	}
	began := time.Now()
	if _, err := fetch(t.Context(), client(t, up()), egress.Request{URL: serve(t, "https", "127.0.0.1", proto).at("https", "up.test", "/")}); err != nil {
		t.Fatal(err)
	}
	timeout := max(300*time.Millisecond, 10*time.Since(began)) // enough for an honest server
	settings := frame(settingsFrame, 0, 0)
	ok := append(settings, frame(headersFrame, endHeaders, 1, 0x88)...) // :status: 200
	for name, bad := range map[string]func(net.Conn){
		"silence":  func(conn net.Conn) { io.Copy(io.Discard, conn) },
		"end":      func(net.Conn) {},
		"http1":    func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno") },
		"settings": func(conn net.Conn) { flood(conn, settings) },
		"ping":     func(conn net.Conn) { flood(conn, append(settings, frame(pingFrame, 0, 0, make([]byte, 8)...)...)) },
		"continuation": func(conn net.Conn) {
			conn.Write(append(settings, frame(headersFrame, 0, 1, 0x88)...))
			flood(conn, frame(continuationFrame, 0, 1, 0x40, 1, 'a', 1, 'b'))
		},
		"headers": func(conn net.Conn) {
			conn.Write(settings)
			flood(conn, frame(headersFrame, endHeaders, 1, 0x08, 3, '1', '0', '3'))
		},
		"reset": func(conn net.Conn) {
			conn.Write(settings)
			for stream := uint32(1); ; stream += 2 {
				if _, err := conn.Write(frame(resetFrame, 0, stream, 0, 0, 0, 7)); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		},
		"no streams": func(conn net.Conn) {
			conn.Write(frame(settingsFrame, 0, 0, 0, 3, 0, 0, 0, 0))
			io.Copy(io.Discard, conn)
		},
		"away": func(conn net.Conn) {
			conn.Write(append(settings, frame(goAwayFrame, 0, 0, make([]byte, 8)...)...))
			io.Copy(io.Discard, conn)
		},
		"endless": func(conn net.Conn) {
			conn.Write(ok)
			flood(conn, frame(pingFrame, 0, 0, make([]byte, 8)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := frames(t, bad, proto)
			c := client(t, up())
			c.SetTimes(timeout, timeout, time.Minute)
			r := egress.Request{URL: s.at("https", "up.test", "/")}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			body, err := fetch(ctx, c, r)
			if err == nil && string(body) != "HTTP/1.1" || ctx.Err() != nil {
				t.Errorf("%q, %v", body, err)
			}
			if name == "endless" { // this one answers with HTTP/2
				return
			}
			if body, err = fetch(ctx, c, r); err != nil || string(body) != "HTTP/1.1" {
				t.Errorf("the next: %q, %v", body, err)
			}
			if n := s.conns.Load(); n > 30 { // some were still being made at the limit
				t.Errorf("%d connections for two requests", n)
			}
		})
	}
}

// TestGoAway: no request fails if the server ends a connection between requests, or while some are in progress.
func TestGoAway(t *testing.T) {
	s := serve(t, "h2", "127.0.0.1", nil)
	var held atomic.Int64
	held.Store(4)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if held.Add(-1) == 0 {
			s.Config.SetKeepAlivesEnabled(false)
		}
		for held.Load() > 0 {
			time.Sleep(time.Millisecond)
		}
		proto(w, r)
	})
	c := client(t, up())
	if answers := askAll(t, c, egress.Request{URL: s.at("https", "up.test", "/")}, 20, 4); answers["HTTP/2.0"] != 20 {
		t.Errorf("answered by %v", answers)
	}
	if n := s.conns.Load(); n < 2 {
		t.Errorf("%d connections", n)
	}
}
