package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"golang.org/x/net/proxy"
)

func isSOCKS(p *url.URL) bool { return p != nil && (p.Scheme == "socks5" || p.Scheme == "socks5h") }

// connectSOCKS connects to t through the SOCKS proxy p. With socks5 the name is looked
// up here, and the proxy is asked for an address that the policy allows: what it
// thinks of the name counts for nothing. With socks5h it is asked for the name, under
// the rules of every proxy that is.
func (c *Client) connectSOCKS(ctx context.Context, p *url.URL, t target) (net.Conn, error) {
	if p.Scheme == "socks5h" {
		if err := c.admitThrough(ctx, t); err != nil {
			return nil, err
		}
		return c.askSOCKS(ctx, p, t.hostport())
	}
	addrs, err := c.addresses(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("%w (with a proxy at socks5:// names are looked up here, with socks5h:// there)", err)
	}
	return race(ctx, addrs, func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
		return c.askSOCKS(ctx, p, net.JoinHostPort(ip.String(), strconv.Itoa(int(t.port))))
	})
}

// askSOCKS asks the proxy for a connection to hostport.
func (c *Client) askSOCKS(ctx context.Context, p *url.URL, hostport string) (net.Conn, error) {
	var auth *proxy.Auth
	if p.User != nil {
		password, _ := p.User.Password()
		auth = &proxy.Auth{User: p.User.Username(), Password: password}
	}
	dialer, err := proxy.SOCKS5("tcp", proxyAddress(p), auth, &net.Dialer{})
	if err != nil {
		return nil, err
	}
	return dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", hostport)
}
