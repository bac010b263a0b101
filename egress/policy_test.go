package egress_test

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

func TestSpecialRangesEndWhereTheRegistriesSay(t *testing.T) {
	c := client(t, egress.Config{Resolver: names{}})
	for _, tt := range []struct {
		open, closed []string
	}{
		{[]string{"1.0.0.0", "9.255.255.255", "11.0.0.0"}, []string{"0.255.255.255", "10.0.0.0", "10.255.255.255"}},
		{[]string{"100.63.255.255", "100.128.0.0"}, []string{"100.64.0.0", "100.127.255.255"}},
		{[]string{"126.255.255.255", "128.0.0.0"}, []string{"127.0.0.0", "127.255.255.255"}},
		{[]string{"169.253.255.255", "169.255.0.0"}, []string{"169.254.0.0", "169.254.255.255"}},
		{[]string{"172.15.255.255", "172.32.0.0"}, []string{"172.16.0.0", "172.31.255.255"}},
		{[]string{"191.255.255.255", "192.0.1.0"}, []string{"192.0.0.0", "192.0.0.255"}},
		{[]string{"192.0.3.0", "192.88.98.255", "192.88.100.0"}, []string{"192.0.2.0", "192.0.2.255", "192.88.99.1"}},
		{[]string{"192.167.255.255", "192.169.0.0"}, []string{"192.168.0.0", "192.168.255.255"}},
		{[]string{"198.17.255.255", "198.20.0.0"}, []string{"198.18.0.0", "198.19.255.255"}},
		{[]string{"198.51.99.255", "198.51.101.0"}, []string{"198.51.100.0", "198.51.100.255"}},
		{[]string{"203.0.112.255", "203.0.114.0"}, []string{"203.0.113.0", "203.0.113.255"}},
		{[]string{"223.255.255.255"}, []string{"224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255"}},
		{[]string{"168.63.129.15", "168.63.129.17"}, []string{"168.63.129.16"}},
		{[]string{"[2000::1]", "[2001:200::]", "[2003::]"},
			[]string{"[1fff::1]", "[2001::]", "[2001:1ff:ffff::]", "[2002::1]", "[2002:ffff::1]"}},
		{[]string{"[2001:db7:ffff::]", "[2001:db9::]"}, []string{"[2001:db8::]", "[2001:db8:ffff::]"}},
		{[]string{"[3ffe::1]", "[3fff:1000::]"}, []string{"[3fff::1]", "[3fff:fff::]", "[4000::]"}},
		{nil, []string{"[::2]", "[64:ff9b::808:808]", "[64:ff9b:1::1]", "[64:ff9b:2::]", "[100::1]",
			"[100:0:0:1::1]", "[5f00::1]"}},
		{nil, []string{"[fc00::]", "[fdff::1]", "[fe80::1]", "[febf::1]", "[fec0::1]", "[ff02::1]", "[ffff::1]"}},
	} {
		for _, host := range tt.open {
			if err := c.Check(t.Context(), &url.URL{Scheme: "https", Host: host}); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
		for _, host := range tt.closed {
			if err := c.Check(t.Context(), &url.URL{Scheme: "https", Host: host}); !errors.Is(err, egress.ErrRefused) {
				t.Errorf("%s: got %v, want ErrRefused", host, err)
			}
		}
	}
}

func TestExceptions(t *testing.T) {
	resolver := names{
		"git.test": {"10.1.1.1"}, "other.test": {"10.1.1.1"}, "web.test": {"93.184.215.14"},
		"mixed.test": {"10.9.9.9", "93.184.215.14"}, "a.git.test": {"10.1.1.1"}, "in.test": {"10.2.0.9"},
	}
	for _, tt := range []struct {
		allow, host string
		port        int
		want        string // the address; empty if refused
	}{
		{"", "git.test", 443, ""},
		{"git.test", "git.test", 443, "10.1.1.1:443"},
		{"git.test", "git.test", 22, "10.1.1.1:22"},
		{"git.test", "GIT.test", 22, "10.1.1.1:22"},
		{"git.test", "other.test", 443, ""}, // the same address by another name
		{"git.test", "10.1.1.1", 443, ""},
		{"git.test", "git.test.", 443, ""},
		{"git.test", "a.git.test", 443, ""},
		{"Git.Test:8443", "git.test", 8443, "10.1.1.1:8443"},
		{"git.test:8443", "git.test", 443, ""},
		{"web.test:8443", "web.test", 443, "93.184.215.14:443"},
		{"web.test:8443", "web.test", 22, ""},
		{"10.2.0.0/16", "in.test", 80, "10.2.0.9:80"},
		{"10.2.0.0/16", "10.2.0.9", 80, "10.2.0.9:80"},
		{"10.2.0.0/16", "::ffff:10.2.0.9", 80, "10.2.0.9:80"},
		{"10.2.0.0/16", "git.test", 80, ""},
		{"10.2.0.0/16", "web.test", 22, ""}, // another address of the name might be allowed, this one is not
		{"10.2.0.9:80", "in.test", 80, "10.2.0.9:80"},
		{"10.2.0.9:80", "in.test", 443, ""},
		{"[fd00::5]:80", "fd00::5", 80, "[fd00::5]:80"},
		{"fd00::/8", "fd00::5", 22, "[fd00::5]:22"},
		{"0.0.0.0/0", "0.0.0.0", 443, ""},
		{"::/0", "::", 443, ""},
		{"0.0.0.0/0", "fd00::5", 443, ""},
		{"git.test", "mixed.test", 443, "93.184.215.14:443"}, // the internal address is left out
	} {
		cfg := egress.Config{Resolver: resolver}
		if tt.allow != "" {
			cfg.Allow = []string{tt.allow}
		}
		got, err := client(t, cfg).Resolve(t.Context(), tt.host, tt.port)
		if tt.want == "" && !errors.Is(err, egress.ErrRefused) || tt.want != "" && got.String() != tt.want {
			t.Errorf("allow %q: %s port %d: got %v, %v, want %q", tt.allow, tt.host, tt.port, got, err, tt.want)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, s := range []string{"", "*.test", "https://git.test", "git.test/x", "10.0.0.0/33", "10.0.0.0/8:80", "127.1",
		"git.test:0", "git.test:x", "fe80::1%eth0", "::ffff:10.0.0.0/104", "git.test:443:443", "a b"} {
		if _, err := egress.New(egress.Config{Allow: []string{s}}); err == nil {
			t.Errorf("allow %q is accepted", s)
		}
	}
	for _, port := range []int{-1, 0, 65536} {
		if _, err := egress.New(egress.Config{Ports: []int{port}}); err == nil {
			t.Errorf("port %d is accepted", port)
		}
	}
	for _, file := range []string{"absent.pem", "policy_test.go"} {
		if _, err := egress.New(egress.Config{CAFile: file}); err == nil {
			t.Errorf("CAFile %s is accepted", file)
		}
	}
}

func TestOwnListenersAreRefused(t *testing.T) {
	target := canary(t)
	other := serve(t, "https", "127.0.0.1", hello)
	for _, listen := range []string{"127.0.0.1", "0.0.0.0", "::"} {
		own := netip.AddrPortFrom(netip.MustParseAddr(listen), uint16(target.port))
		c := client(t, egress.Config{Allow: []string{"127.0.0.0/8", "::1", "me.test"}, Listening: []netip.AddrPort{own},
			Resolver: loopback{}})
		for _, host := range []string{"127.0.0.1", "me.test", "[::ffff:127.0.0.1]"} {
			_, err := c.Get(t.Context(), egress.Request{URL: target.at("https", host, "/")})
			if !errors.Is(err, egress.ErrRefused) {
				// ::1 is another address than 127.0.0.1, and no listener exists there.
				if !(listen == "127.0.0.1" && host == "me.test" && err != nil) {
					t.Errorf("listening on %s: %s: got %v, want ErrRefused", listen, host, err)
				}
			}
		}
		resp, err := c.Get(t.Context(), egress.Request{URL: other.at("https", "127.0.0.1", "/")})
		if err != nil {
			t.Fatalf("another port: %v", err)
		}
		resp.Body.Close()
	}
}

// anyAddr resolves every name to itself.
type anyAddr netip.Addr

func (a anyAddr) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.Addr(a)}, nil
}

// TestNoAddressIsRefused: an invalid address is not globally reachable.
func TestNoAddressIsRefused(t *testing.T) {
	c := client(t, egress.Config{Resolver: anyAddr{}})
	if got, err := c.Resolve(t.Context(), "zero.test", 443); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("%v, %v; want ErrRefused", got, err)
	}
}
