// Package egress makes every connection that leaves modproxy.
//
// Invariant: no byte is sent to an address that the policy does not allow. The address is judged when it is
// connected to; what a name resolved to before, what a URL looked like and what a redirect promised do not
// count. git, which connects by itself, is given a [Session] that holds it to the same policy.
//
// The policy allows globally reachable addresses, on port 443 and the ports of
// [Config.Ports], with TLS. [Config.Allow] excepts what else is needed, and nothing
// more: an internal address, another port or plain http.
package egress

import (
	"context"
	"errors"
	"net/netip"
)

// Errors of this package, beside those of packages net, crypto/tls and context.
var (
	// ErrRefused: the policy does not allow the destination, or never follows such
	// a URL. Trying again does not help.
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
//
// HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in the environment of [New] say
// which URLs are reached through a proxy, by http, https, socks5 or socks5h.
type Config struct {
	// Allow lists exceptions: a hostname ("git.example.com"), an address ("10.0.0.5", "fd00::5"), either with a
	// port ("10.0.0.5:8443", "[fd00::5]:8443"), or a CIDR ("10.0.0.0/8"). An exception without a port is for
	// every port. A hostname is excepted with whatever it resolves to, but only when it is asked for by that
	// name.
	Allow []string
	// Ports may be connected to beside 443.
	Ports []int
	// Listening are the addresses that this process listens on. They are refused even if Allow has them. An
	// unspecified one (0.0.0.0, ::) stands for every address of this machine.
	Listening []netip.AddrPort
	// ProxyNames has a proxy by http or https asked for names, which it looks up. Without it such a proxy is
	// asked for an address that the policy allows, or for a hostname that is in Allow. A proxy by socks5 is
	// asked for addresses only, one by socks5h for names.
	ProxyNames bool
	// CAFile names a PEM file of root certificates to trust beside the system's.
	CAFile string
	// UserAgent is sent with every request; "modproxy" if empty.
	UserAgent string
	// Resolver looks names up; the system's if nil.
	Resolver Resolver
}

// Resolver looks up the addresses of a host. [net.Resolver] is one. Network is always "ip".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}
