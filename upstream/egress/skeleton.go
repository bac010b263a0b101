package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
)

var errSkeleton = errors.New("egress is being written")

// Client connects to where the policy allows. It is safe for concurrent use.
type Client struct{}

// New reads cfg. Its errors name the setting that is wrong.
func New(cfg Config) (*Client, error) { return &Client{}, nil }

// Close closes idle connections.
func (c *Client) Close() error { return nil }

// Get asks for r.URL. The answer may have any status; its Request.URL is the URL
// of the last hop. The caller closes the body; ctx governs it until then.
func (c *Client) Get(ctx context.Context, r Request) (*http.Response, error) { return nil, errSkeleton }

// Check is [ErrRefused] if u is sure to be refused. It resolves and connects nothing.
func (c *Client) Check(ctx context.Context, u *url.URL) error { return errSkeleton }

// Dial connects to host:port ("tcp", "tcp4", "tcp6"), never through a proxy.
func (c *Client) Dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	return nil, errSkeleton
}

// Resolve is an address of host that may be connected to on port.
func (c *Client) Resolve(ctx context.Context, host string, port int) (netip.AddrPort, error) {
	return netip.AddrPort{}, errSkeleton
}

// Origin is scheme://host, with the port if it is not the scheme's own.
func Origin(u *url.URL) string { return "" }

// Redact is a URL for people: without user information, query and fragment.
func Redact(u *url.URL) string { return "" }

// ListenTunnel starts a forward proxy on a loopback port, for programs that
// connect by themselves. It ends with ctx or by Close.
func (c *Client) ListenTunnel(ctx context.Context) (*Tunnel, error) { return nil, errSkeleton }

// Tunnel is a forward proxy that holds its users to the policy.
type Tunnel struct{}

// Close ends the tunnel and all its sessions.
func (t *Tunnel) Close() error { return nil }

// Session opens the tunnel for one user, say one git fetch, with a credential of
// its own, until it has received maxBytes.
func (t *Tunnel) Session(maxBytes int64) *Session { return nil }

// Session is one use of a Tunnel.
type Session struct{}

// URL is http://user:password@127.0.0.1:port, for git's http.proxy (together with
// http.proxyAuthMethod=basic). It is secret: hand it over by GIT_CONFIG_COUNT in
// the environment, never as an argument, and without NO_PROXY in there.
func (s *Session) URL() string { return "" }

// Refused is the first reason why a connection was not made or was cut:
// [ErrRefused], [ErrTooLarge], [ErrTooSlow] or a network error. Nil if there was none.
func (s *Session) Refused() error { return nil }

// Received is the number of bytes that came in so far.
func (s *Session) Received() int64 { return 0 }

// Close cuts the session's connections and makes its credential worthless.
func (s *Session) Close() error { return nil }
