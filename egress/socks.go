package egress

import (
	"context"
	"net"
	"net/url"

	"golang.org/x/net/proxy"
)

func isSOCKS(p *url.URL) bool { return p != nil && (p.Scheme == "socks5" || p.Scheme == "socks5h") }

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
