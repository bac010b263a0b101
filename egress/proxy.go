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
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
)

// lookupBeforeProxy limits a look-up that only checks a name before a proxy receives it. At sites that cannot look up names of
// the internet, this time is lost.
const lookupBeforeProxy = 3 * time.Second

// proxyOfEnvironment returns the current settings of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and of ALL_PROXY in place of the
// first two. An unusable setting is an error, because requests would bypass the proxy. The error does not show the setting.
func proxyOfEnvironment() (func(*url.URL) (*url.URL, error), error) {
	cfg := httpproxy.FromEnvironment()
	all := cmp.Or(os.Getenv("ALL_PROXY"), os.Getenv("all_proxy"))
	for name, setting := range map[string]*string{"HTTPS_PROXY": &cfg.HTTPSProxy, "HTTP_PROXY": &cfg.HTTPProxy} {
		if *setting == "" && all != "" {
			name, *setting = "ALL_PROXY", all
		}
		if *setting == "" {
			continue
		}
		u, err := url.Parse(*setting)
		if err != nil || u.Scheme == "" || u.Host == "" { // host:port means an http proxy
			u, err = url.Parse("http://" + *setting)
		}
		if err != nil || strings.Trim(u.Path, "/") != "" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" ||
			proxyPorts[u.Scheme] == "" {
			return nil, fmt.Errorf("egress: %s: %w, http://host:port, or with https, socks5 or socks5h", name, ErrProxy)
		}
		*setting = u.String()
	}
	return cfg.ProxyFunc(), nil
}

// Proxy returns the URL of the proxy for requests to u, or nil.
func (c *Client) Proxy(u *url.URL) *url.URL {
	p, err := c.proxy(u)
	if err != nil {
		return nil // New has checked the settings
	}
	return p
}

// ProxyAddress returns the host and port of a proxy.
func ProxyAddress(p *url.URL) string {
	return net.JoinHostPort(p.Hostname(), cmp.Or(p.Port(), proxyPorts[p.Scheme]))
}

var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

func isSOCKS(p *url.URL) bool { return strings.HasPrefix(p.Scheme, "socks5") }

// byName reports whether proxy p receives the name of t instead of an address.
func (c *Client) byName(p *url.URL, t target) bool {
	return p.Scheme == "socks5h" || !isSOCKS(p) && (c.cfg.ProxyNames || c.policy.exceptsName(t))
}

// admitThrough returns an error unless a proxy may receive the name of t. An address must be one that may be connected to
// directly. A name that can be looked up here must have allowed addresses only. Behind many proxies names cannot be looked up.
// Such a name is left to the proxy and its rules, unless it needs an exception for an address.
func (c *Client) admitThrough(ctx context.Context, t target) error {
	if err := c.policy.check(t); err != nil || t.ip.IsValid() || c.policy.exceptsName(t) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupBeforeProxy)
	defer cancel()
	allowed, refused, err := c.lookup(ctx, t)
	if err != nil || len(allowed) == 0 && refused == nil {
		return c.policy.ordinary(t)
	}
	return refused
}

// connectThrough connects to t through the proxy p. Unless p may receive names, connectThrough looks the name up and passes p
// an address that the policy allows, so that p's own look-up of the name does not count.
func (c *Client) connectThrough(ctx context.Context, p *url.URL, t target) (_ net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+tlsTimeout)
	defer cancel()
	defer func() {
		if err != nil && !errors.Is(err, ErrRefused) {
			err = fmt.Errorf("proxy %s: %w", p.Host, err)
		}
	}()
	ask, hint := c.askHTTP, "names are looked up here; operator: with egress.proxy_names they are left to the proxy"
	if isSOCKS(p) {
		ask, hint = askSOCKS, "operator: with a proxy at socks5:// names are looked up here, with socks5h:// there"
	}
	if c.byName(p, t) {
		if err := c.admitThrough(ctx, t); err != nil {
			return nil, err
		}
		return ask(ctx, p, t.hostport())
	}
	addrs, err := c.addresses(ctx, t)
	if errors.Is(err, ErrRefused) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, hint)
	}
	conn, err := race(ctx, addrs, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		return ask(ctx, p, addr.String())
	})
	if errors.As(err, new(connectError)) && !t.ip.IsValid() {
		err = fmt.Errorf("%w (for an address of %s; operator: with egress.proxy_names the proxy receives the name)", err, t.hostport())
	}
	return conn, err
}

// askSOCKS requests a connection to hostport from the SOCKS proxy p.
func askSOCKS(ctx context.Context, p *url.URL, hostport string) (net.Conn, error) {
	dialer, err := proxy.FromURL(p, &net.Dialer{})
	if err != nil {
		return nil, err
	}
	return dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", hostport)
}

// askHTTP requests a tunnel to hostport from the http or https proxy p.
func (c *Client) askHTTP(ctx context.Context, p *url.URL, hostport string) (_ net.Conn, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", ProxyAddress(p))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if p.Scheme == "https" {
		cfg := c.tls.Clone()
		cfg.ServerName = p.Hostname()
		conn = tls.Client(conn, cfg)
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: hostport}, Host: hostport, Header: http.Header{}}
	if p.User != nil {
		password, _ := p.User.Password()
		r.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(p.User.Username()+":"+password)))
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
		return nil, connectError(fmt.Sprintf("CONNECT %s: status %d", hostport, resp.StatusCode))
	}
	limited.N = math.MaxInt64
	return bufferedConn{conn, buffered}, ctx.Err()
}

// connectError is the response of a proxy that refuses to connect.
type connectError string

func (e connectError) Error() string { return string(e) }

// bufferedConn is a connection that is read through a buffer.
type bufferedConn struct {
	net.Conn
	r io.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }
