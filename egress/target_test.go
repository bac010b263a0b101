package egress_test

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

// loopback resolves every name to this machine.
type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, nil
}

func TestSpellingsOfInternalTargetsAreRefused(t *testing.T) {
	target := canary(t)
	c := client(t, egress.Config{Ports: []int{target.port}, Resolver: loopback{}})
	for _, host := range []string{
		"127.0.0.1", "127.0.0.2", "127.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
		"127.0.0.01", "0300.0250.1.1", "127.0.0.1.", "localhost", "localhost.", "LOCALHOST", "canary.test",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
		"[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1%25lo]", "[::1%25lo]", "[fd00:ec2::254]",
		"169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "10.0.0.5",
		"user@127.0.0.1", "user:password@canary.test", "src.test\\@127.0.0.1", "src.test#@127.0.0.1", "src.test?@127.0.0.1",
		"①②⑦.⓪.⓪.①", "127。0。0。1", "%31%32%37.0.0.1", "", "a..test", "-a.test", "a_.te st",
	} {
		raw := "https://" + host + target.at("", "", "")[len("://"):] + "/latest/meta-data"
		resp, err := c.Get(t.Context(), egress.Request{URL: raw, Attempts: 3})
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%s: got %v, want ErrRefused", raw, err)
		} else if strings.Contains(err.Error(), "password") {
			t.Errorf("%s: the error shows a password: %v", raw, err)
		}
	}
}

func TestOtherSchemesAndPortsAreRefused(t *testing.T) {
	c := client(t, egress.Config{Resolver: names{"a.test": {"127.0.0.1"}}, Ports: []int{8443}})
	for _, raw := range []string{
		"http://a.test/", "http://93.184.215.14/", "file:///etc/passwd", "ftp://a.test/", "gopher://a.test/",
		"git::https://a.test/x",
		"https:a.test", "//a.test/x", "a.test", "https://93.184.215.14:22/", "https://93.184.215.14:0/",
		"https://93.184.215.14:0443/", "https://93.184.215.14:65979/", "https://93.184.215.14:/", "http://93.184.215.14:443/",
		"https://\u212Aelvin.test/", "https://kelvin.t\u0130st/", // in lower case they become ASCII letters
		"https://a.test/" + strings.Repeat("x", 9000), "https://a.test/\x7f", "https://[93.184.215.14]/", "https://::1/",
	} {
		if _, err := c.Get(t.Context(), egress.Request{URL: raw}); !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%.60s: got %v, want ErrRefused", raw, err)
		}
	}
	for _, raw := range []string{"https://93.184.215.14/", "https://93.184.215.14:8443/", "https://[2606:2800:21f::1]/",
		"https://a.test/"} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(t.Context(), u); err != nil {
			t.Errorf("Check(%s): %v", raw, err)
		}
	}
}

func TestOriginAndRedact(t *testing.T) {
	for _, tt := range []struct{ url, origin, redacted string }{
		{"https://Example.TEST:443/a?b=SECRET#c", "https://example.test", "https://Example.TEST:443/a"},
		{"https://example.test:8443", "https://example.test:8443", "https://example.test:8443"},
		{"http://example.test:80/", "http://example.test", "http://example.test:80/"},
		{"http://example.test:443/", "http://example.test:443", "http://example.test:443/"},
		{"https://[2606:2800::1]/a%2fb", "https://[2606:2800::1]", "https://[2606:2800::1]/a%2fb"},
		{"https://u:SECRET@example.test/", "", "https://example.test/"},
		{"mailto:SECRET", "", "mailto:[redacted]"},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := egress.Origin(u); got != tt.origin {
			t.Errorf("Origin(%s) = %q, want %q", tt.url, got, tt.origin)
		}
		if got := egress.Redact(u); got != tt.redacted {
			t.Errorf("Redact(%s) = %q, want %q", tt.url, got, tt.redacted)
		}
	}
}

// FuzzCheck: a URL that passes Check has one spelling of its origin, and its address is not internal.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		"https://example.test/", "https://127.1/", "https://[::ffff:7f00:1]/", "https://u@h/", "https://a.test:8443/x?y#z",
		"http://10.0.0.1/", "https://[fe80::1%25eth0]/", "https://0x7f.1/", "https://a\\@b/", "https://[64:ff9b::1]:443/",
	} {
		f.Add(s)
	}
	c, err := egress.New(egress.Config{Resolver: names{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil || c.Check(t.Context(), u) != nil {
			return
		}
		origin := egress.Origin(u)
		again, err := url.Parse(origin)
		if err != nil || egress.Origin(again) != origin || !strings.HasPrefix(origin, "https://") {
			t.Fatalf("%q has the origin %q, which is none", s, origin)
		}
		host := again.Hostname()
		if ip, err := netip.ParseAddr(host); err == nil {
			if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.Is4In6() || ip.Zone() != "" {
				t.Fatalf("%q leads to %v", s, ip)
			}
		} else if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || u.User != nil {
			t.Fatalf("%q leads to %q", s, host)
		}
	})
}

func FuzzAllow(f *testing.F) {
	for _, s := range []string{"git.example.test", "git.example.test:8443", "10.0.0.0/8", "10.0.0.5", "10.0.0.5:80",
		"[fd00::5]:443", "fd00::/8", "*.test", "::ffff:10.0.0.0/104"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := egress.New(egress.Config{Allow: []string{s}, Resolver: names{}})
		if err != nil || strings.Contains(s, "/") {
			return
		}
		// One exception never covers both of these addresses.
		a := c.Check(t.Context(), &url.URL{Scheme: "https", Host: "10.1.2.3"})
		b := c.Check(t.Context(), &url.URL{Scheme: "https", Host: "[fd00::7]"})
		if a == nil && b == nil {
			t.Fatalf("%q excepts too much", s)
		}
	})
}
