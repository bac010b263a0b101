package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// TestDialerRefusesByItself: the check at the time of connecting does not rely on earlier checks.
func TestDialerRefusesByItself(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	for _, tt := range []struct {
		allow string
		port  uint16
		ok    bool
	}{
		{"a.test", addr.Port(), true},
		{"127.0.0.0/8", addr.Port(), true},
		{"b.test", addr.Port(), false},
		{"a.test", addr.Port() - 1, false}, // the port of another target
	} {
		p, err := newPolicy(Config{Allow: []string{tt.allow}, Ports: []int{int(addr.Port())}})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := p.dialer(target{host: "a.test", port: tt.port}).DialContext(t.Context(), "tcp", addr.String())
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("allow %s, port %d: got %v", tt.allow, tt.port, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

func TestAnEndAfterTheContextIsNoEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	b := &body{r: strings.NewReader("part"), ctx: ctx, cancel: cancel, url: "https://a.test/"}
	if _, err := io.ReadFull(b, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	cancel(context.DeadlineExceeded)
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// waiting is a resolver that never answers.
type waiting chan struct{}

func (w waiting) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	w <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAClosedSessionHasNoReason(t *testing.T) {
	lookups := make(waiting)
	c, err := New(Config{Resolver: lookups})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Session(1)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth("any", s.password)
	io.WriteString(conn,
		"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: "+r.Header.Get("Authorization")+"\r\n\r\n")
	<-lookups
	s.Close()
	if err := s.Refused(); err != nil {
		t.Errorf("got %v", err)
	}
}
