package app

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// knownHosts reports whether a request's host is one that this process is sure to
// be known by: the address it listens on, and the names in its certificate.
func knownHosts(listening net.Addr, c *certificate) func(string) bool {
	own := map[string]bool{listening.String(): true}
	if ap, err := netip.ParseAddrPort(listening.String()); err == nil && ap.Addr().Unmap().IsLoopback() {
		own[fmt.Sprintf("localhost:%d", ap.Port())] = true
	}
	if ap, err := netip.ParseAddrPort(listening.String()); err == nil && ap.Addr().IsUnspecified() {
		for _, loopback := range []string{"127.0.0.1", "localhost", "[::1]"} {
			own[fmt.Sprintf("%s:%d", loopback, ap.Port())] = true
		}
	}
	return func(host string) bool {
		if own[host] {
			return true
		}
		if c == nil || strings.ContainsAny(host, "/@?#\\ ") {
			return false
		}
		name := host
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
		return c.get().Leaf.VerifyHostname(name) == nil
	}
}
