package egress

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// lookupBeforeProxy bounds a lookup that only serves to check what a proxy is
// asked for. Where names of the internet cannot be looked up, it is lost time.
const lookupBeforeProxy = 3 * time.Second

// proxy is the proxy that u is reached through, or nil. Its error shows nothing of
// the setting, which may hold a password.
func (c *Client) proxy(u *url.URL) (*url.URL, error) {
	p, err := c.cfg.Proxy(u)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", errProxy)
	}
	if p == nil {
		return nil, nil
	}
	if err := checkProxy(p); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return p, nil
}

// byName reports whether p is asked for t's name, and so for whatever that is for p.
func (c *Client) byName(p *url.URL, t target) bool {
	switch p.Scheme {
	case "socks5":
		return false
	case "socks5h":
		return true
	}
	return c.cfg.ProxyNames || c.policy.exceptsName(t)
}

// admitThrough decides whether a proxy may be asked for t by its name. An address
// must be one that may be connected to directly. A name that can be looked up here
// must have no other addresses. A name that cannot be, which is how it is behind many
// proxies, is left to the proxy and its rules, unless it needs an exception that
// only an address could have.
func (c *Client) admitThrough(ctx context.Context, t target) error {
	if err := c.policy.check(t); err != nil || t.ip.IsValid() || c.policy.exceptsName(t) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupBeforeProxy)
	defer cancel()
	addrs, err := c.cfg.Resolver.LookupNetIP(ctx, "ip", t.host)
	if err != nil {
		return c.policy.ordinary(t)
	}
	for _, ip := range addrs {
		if err := c.policy.admit(t, ip); err != nil {
			return err
		}
	}
	if len(addrs) == 0 {
		return c.policy.ordinary(t)
	}
	return nil
}

// connect connects to t, through a proxy if there is one for it.
func (c *Client) connect(ctx context.Context, t target) (net.Conn, error) {
	p, err := c.proxy(t.url())
	if err != nil {
		return nil, err
	}
	if p == nil {
		return c.dial(ctx, t)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout+c.cfg.TLSTimeout)
	defer cancel()
	conn, err := c.connectThrough(ctx, p, t)
	if err != nil && !errors.Is(err, ErrRefused) {
		err = fmt.Errorf("proxy %s: %w", p.Host, err)
	}
	return conn, err
}

// connectThrough connects to t through the proxy p. Unless p may be asked for names, a
// name is looked up here, and p is asked for an address that the policy allows: what
// p thinks of the name counts for nothing.
func (c *Client) connectThrough(ctx context.Context, p *url.URL, t target) (net.Conn, error) {
	ask := c.askHTTP
	if isSOCKS(p) {
		ask = c.askSOCKS
	}
	if c.byName(p, t) {
		if err := c.admitThrough(ctx, t); err != nil {
			return nil, err
		}
		return ask(ctx, p, t.hostport())
	}
	addrs, err := c.addresses(ctx, t)
	switch {
	case errors.Is(err, ErrRefused):
		return nil, err
	case err != nil && isSOCKS(p):
		return nil, fmt.Errorf("%w (with a proxy at socks5:// names are looked up here, with socks5h:// there)", err)
	case err != nil:
		return nil, fmt.Errorf("%w (names are looked up here; with egress.proxy_names they are left to the proxy)", err)
	}
	conn, err := race(ctx, addrs, func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
		return ask(ctx, p, netip.AddrPortFrom(ip, t.port).String())
	})
	var status *connectStatus
	if errors.As(err, &status) && !t.ip.IsValid() {
		err = fmt.Errorf("%w (that is for %s; with egress.proxy_names the proxy is asked for the name)", err, t.hostport())
	}
	return conn, err
}

// proxyAddress is what a proxy is connected to at.
func proxyAddress(p *url.URL) string {
	ports := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	return net.JoinHostPort(p.Hostname(), cmp.Or(p.Port(), ports[p.Scheme]))
}

// askHTTP asks the proxy p, by http or https, for a connection to hostport.
func (c *Client) askHTTP(ctx context.Context, p *url.URL, hostport string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", proxyAddress(p))
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if p.Scheme == "https" {
		cfg := c.tlsConfig()
		cfg.ServerName = p.Hostname()
		conn = tls.Client(conn, cfg)
	}
	through, err := askConnect(conn, p.User, hostport)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return through, nil
}

// askConnect asks the HTTP proxy at the other end of conn for a tunnel to hostport.
func askConnect(conn net.Conn, user *url.Userinfo, hostport string) (net.Conn, error) {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: hostport}, Host: hostport, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: conn, N: maxHeaderBytes}
	buffered := bufio.NewReader(limited)
	resp, err := http.ReadResponse(buffered, r)
	if err != nil {
		return nil, errors.New("no answer to CONNECT that is HTTP")
	}
	if resp.StatusCode/100 != 2 {
		return nil, &connectStatus{hostport, resp.StatusCode}
	}
	early, _ := buffered.Peek(buffered.Buffered()) // what is buffered is there
	return &earlyConn{Conn: conn, early: early}, nil
}

// connectStatus is the answer of a proxy that does not connect.
type connectStatus struct {
	hostport string
	status   int
}

func (e *connectStatus) Error() string {
	return fmt.Sprintf("CONNECT %s: status %d", e.hostport, e.status)
}

// earlyConn gives first what was read from Conn too early.
type earlyConn struct {
	net.Conn
	early []byte
}

func (c *earlyConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite tells the other end that nothing more will come.
func (c *earlyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// wire sends one request over the right connection. It is the only transport that
// is ever used.
type wire struct{ *Client }

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := targetOf(r.URL)
	if err != nil {
		return nil, err
	}
	if err := w.policy.check(t); err != nil {
		return nil, err
	}
	p, err := w.proxy(r.URL)
	if err != nil {
		return nil, err
	}
	transport := w.secure
	if t.plain {
		transport = w.plain
	}
	// A proxy by http takes the URL of a request that is not encrypted, name and all.
	if t.plain && p != nil && !isSOCKS(p) && w.byName(p, t) {
		if err := w.admitThrough(r.Context(), t); err != nil {
			return nil, err
		}
		transport = w.forward
	}
	return transport.RoundTrip(r)
}

var _ Resolver = (*net.Resolver)(nil)
