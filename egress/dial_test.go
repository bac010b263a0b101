package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

// rebinding resolves to one address at first and to another one afterwards.
type rebinding struct {
	addrs []string
	asked atomic.Int64
}

func (r *rebinding) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n := r.asked.Add(1) - 1
	return []netip.Addr{netip.MustParseAddr(r.addrs[int(n)%len(r.addrs)])}, nil
}

func TestRebindingReachesNothing(t *testing.T) {
	good := serve(t, "https", "127.0.0.2", hello)
	ln, err := net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(good.port)).String())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var touched atomic.Bool
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			touched.Store(true)
			conn.Close()
		}
	}()
	resolver := &rebinding{addrs: []string{"127.0.0.2", "127.0.0.1"}}
	c := client(t, egress.Config{Allow: []string{"127.0.0.2"}, Ports: []int{good.port}, Resolver: resolver, NoHedging: true})
	for i := range 10 {
		before := resolver.asked.Load()
		resp, err := c.Get(t.Context(), egress.Request{URL: good.at("https", "rebind.test", "/")})
		if asked := resolver.asked.Load() - before; asked != 1 {
			t.Errorf("request %d looked the name up %d times", i, asked)
		}
		switch {
		case i%2 == 0 && err != nil:
			t.Errorf("request %d: %v", i, err)
		case i%2 == 1 && !errors.Is(err, egress.ErrRefused):
			t.Errorf("request %d: got %v, want ErrRefused", i, err)
		}
		if err == nil {
			resp.Body.Close()
		}
		c.Close()
	}
	if touched.Load() {
		t.Error("the address that was not allowed was connected to")
	}
}

func TestDialTriesAllAddresses(t *testing.T) {
	s := serve(t, "http", "127.0.0.2", hello)
	c := client(t, egress.Config{Allow: []string{"127.0.0.0/8"},
		Resolver: names{"many.test": {"127.0.0.3", "10.0.0.1", "::1", "127.0.0.2"}}})
	ask := egress.Request{URL: s.at("http", "many.test", "/")}
	if body, err := fetch(t.Context(), c, ask); err != nil || string(body) != "hello" {
		t.Fatalf("got %q, %v", body, err)
	}
	c.Close()
	s.Close()
	if _, err := c.Get(t.Context(), ask); err == nil || errors.Is(err, egress.ErrRefused) {
		t.Errorf("without a listener: got %v, want an error of the network", err)
	}
}
