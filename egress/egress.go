// Package egress makes every connection that leaves modproxy.
//
// Invariant: no byte is sent to an address that the policy does not allow. The
// policy looks at the address that is being connected to, at the moment it is
// connected to; what a name resolved to earlier, what a URL looked like and what
// a redirect promised count for nothing. git, which connects by itself, is given
// a [Tunnel] that holds it to the same policy.
//
// Allowed are globally reachable addresses, on port 443 and the ports of
// [Config.Ports], with TLS. What else is needed is excepted by [Config.Allow],
// and only what is excepted: an internal address, another port or plain http.
package egress

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"time"
)

// What can be wrong, beside what package net, crypto/tls and context report.
var (
	// ErrRefused: the policy does not allow the destination, or the URL is not
	// one that is ever followed. Trying again does not help.
	ErrRefused = errors.New("destination not allowed")
	// ErrTooLarge: a body, or all that a session received, is larger than allowed.
	ErrTooLarge = errors.New("larger than allowed")
	// ErrTooSlow: a body came in below the least rate.
	ErrTooSlow = errors.New("too slow")
	// ErrAnswer: the server answered something that was not asked for: too many
	// redirects, a part of a body, a coding, a body whose end cannot be known.
	ErrAnswer = errors.New("not the answer that was asked for")
)

// Config is how a [Client] is set up. The zero value is safe.
type Config struct {
	// Allow lists exceptions: a hostname ("git.example.com"), an address
	// ("10.0.0.5", "fd00::5"), either with a port ("10.0.0.5:8443",
	// "[fd00::5]:8443"), or a CIDR ("10.0.0.0/8"). An exception without a port
	// is for every port. A hostname is excepted with whatever it resolves to,
	// but only when it is asked for by that name.
	Allow []string
	// Ports may be connected to beside 443.
	Ports []int
	// CAFile names a PEM file of root certificates to trust beside the system's.
	CAFile string
	// UserAgent is sent with every request; "modproxy" if empty.
	UserAgent string
	// Self reports whether an address is one that this process listens on. Such
	// an address is refused even if Allow has it.
	Self func(netip.AddrPort) bool
	// Proxy says through which proxy a URL is to be reached; nil for none. It is
	// one by http, https, socks5 or socks5h. If Proxy itself is nil, HTTPS_PROXY,
	// HTTP_PROXY, ALL_PROXY and NO_PROXY decide.
	Proxy func(*url.URL) (*url.URL, error)
	// ProxyNames has a proxy by http or https asked for names, which it looks up, as
	// one by socks5h is. Without it such a proxy is asked for an address that the
	// policy allows, or for a hostname that is in Allow; as one by socks5 is for
	// addresses alone.
	ProxyNames bool
	// Resolver looks names up; the system's if nil.
	Resolver Resolver
	// ConnsPerHost bounds the connections to one host and port; 0 is 64.
	ConnsPerHost int

	ConnectTimeout time.Duration // for a TCP connection; 0 is 10s
	TLSTimeout     time.Duration // for a TLS handshake; 0 is 10s
	HeaderTimeout  time.Duration // from the request to the end of the answer's header; 0 is 30s
	IdleTimeout    time.Duration // for a tunnelled connection on which nothing moves; 0 is 2m

	// A body that brings less than MinRate bytes per second, on average over
	// RateWindow spent waiting for it, is given up. 0 is 1024 and 30s.
	MinRate    int64
	RateWindow time.Duration
}

// Resolver looks up the addresses of a host. [net.Resolver] is one. Network is
// always "ip".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}
