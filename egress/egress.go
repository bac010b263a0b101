// Package egress makes every connection that leaves modproxy.
//
// Invariant: no byte is sent to an address that the policy does not allow. The address is judged when it is
// connected to; what a name resolved to before, what a URL looked like and what a redirect promised do not
// count. git, which connects by itself, is given a [Session] that holds it to the same policy.
//
// The policy allows globally reachable addresses, on port 443 and the ports of [Config.Ports], with TLS.
// [Config.Allow] excepts what else is needed, and nothing more: an internal address, another port or plain http.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"
)

// Errors of this package, beside those of packages net, crypto/tls and context.
var (
	// ErrRefused: the policy does not allow the destination, or never follows such a URL. Trying again does not help.
	ErrRefused = errors.New("destination not allowed")
	// ErrTooLarge: a body, or all that a session received, is larger than allowed.
	ErrTooLarge = errors.New("larger than allowed")
	// ErrTooSlow: a body came in below the least rate.
	ErrTooSlow = errors.New("too slow")
	// ErrStalled is an [ErrTooSlow]: nothing came of a body for a while. Another attempt may do better.
	ErrStalled = fmt.Errorf("%w: nothing came", ErrTooSlow)
	// ErrAnswer: not what was asked for: too many redirects, part of a body, a coding, a body of unknown end.
	ErrAnswer = errors.New("not the answer that was asked for")
)

// Config is how a [Client] is set up. The zero value is safe.
//
// HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in the environment of [New] say
// which URLs are reached through a proxy, by http, https, socks5 or socks5h.
type Config struct {
	// Allow lists exceptions: a hostname ("git.example.com"), an address ("10.0.0.5", "fd00::5"), either with a port
	// ("10.0.0.5:8443", "[fd00::5]:8443"), or a CIDR ("10.0.0.0/8"). An exception without a port is for every port. A
	// hostname is excepted with whatever it resolves to, but only when it is asked for by that name.
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
	// NoHedging makes Hedges report false.
	NoHedging bool
	// UserAgent is sent with every request; "modproxy" if empty.
	UserAgent string
	// Resolver looks names up; the system's if nil.
	Resolver Resolver
}

// Resolver looks up the addresses of a host. [net.Resolver] is one. Network is always "ip".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	maxHeaderBytes = 64 << 10
	connsPerHost   = 64 // and port
	idlePerHost    = 16 // connections, as many as there are packages or questions at a time for one host
	connectTimeout = 10 * time.Second
	tlsTimeout     = 10 * time.Second
	headerTimeout  = 30 * time.Second // from the request to the end of the answer's header
	streamBytes    = 1 << 20          // of a body by HTTP/2 are received before they are read
	pingAfter      = 5 * time.Second  // of silence a connection by HTTP/2 is tried, and given up after as long
	idleTimeout    = 2 * time.Minute  // for a tunnelled connection on which nothing moves
	minRate        = 1024             // bytes per second of a body, on average over rateWindow
	rateWindow     = 30 * time.Second // spent waiting for the body; a third of it for documents
)

// Client connects to where the policy allows, and nowhere else. It is safe for concurrent use.
type Client struct {
	cfg    Config // with its defaults
	policy *policy
	tls    *tls.Config
	proxy  func(*url.URL) (*url.URL, error) // which a URL is reached through, or nil

	secure, single *http.Transport // by https to where the request goes: by HTTP/2 if that is offered, and by HTTP/1.1
	fresh          *http.Transport // by https and HTTP/1.1, each request on a new connection
	plain          *http.Transport // by http
	forward        *http.Transport // of http, to the proxy that is sent the whole URL
	hosts          hosts           // that are asked by https

	idle, window time.Duration // idleTimeout and rateWindow, but for tests
}

// New returns a Client. Its errors say which setting is wrong.
func New(cfg Config) (*Client, error) {
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "modproxy")
	cfg.Resolver = cmp.Or[Resolver](cfg.Resolver, net.DefaultResolver)
	c := &Client{cfg: cfg, idle: idleTimeout, window: rateWindow, hosts: hosts{of: map[string]*host{}}}
	var err error
	if c.policy, err = newPolicy(cfg); err != nil {
		return nil, err
	}
	if c.proxy, err = proxyOfEnvironment(); err != nil {
		return nil, err
	}
	roots, err := rootCertificates(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	c.tls = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	c.secure, c.single, c.fresh, c.plain = c.transport(false), c.transport(false), c.transport(false), c.transport(true)
	c.secure.Protocols.SetHTTP2(true)
	c.fresh.DisableKeepAlives = true
	// It connects to the proxy only, which the operator chose.
	c.forward = c.transport(true)
	c.forward.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	c.forward.Proxy = func(r *http.Request) (*url.URL, error) { return c.proxy(r.URL) }
	return c, nil
}

// transport returns a transport that connects under the policy, which holds for as long as c is used: a connection is
// kept for others that go to the same host and port. It speaks HTTP/1.1 only.
func (c *Client) transport(plain bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			t, err := parseHostport(addr)
			if err != nil {
				return nil, err
			}
			t.plain = plain
			return c.connect(ctx, t)
		},
		TLSClientConfig:        c.tls.Clone(),
		Protocols:              protocols,
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxConnsPerHost:        connsPerHost,
		MaxIdleConns:           128,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true, // body undoes it, within its bound
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamBytes,
			SendPingTimeout:           pingAfter,
			PingTimeout:               pingAfter,
			WriteByteTimeout:          headerTimeout,
		},
	}
}

// rootCertificates returns the system's and those of file; nil if file is empty.
func rootCertificates(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	pool, errSystem := x509.SystemCertPool()
	if err := cmp.Or(err, errSystem); err != nil {
		return nil, fmt.Errorf("egress: root certificates: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("egress: root certificates: %s has no certificate in PEM form", file)
	}
	return pool, nil
}

// Hedges reports whether callers may hedge: send a request a second time, beside the first, when its answer is late.
// Every hedge in the program depends on it.
func (c *Client) Hedges() bool { return !c.cfg.NoHedging }

// Transport returns c as an [http.RoundTripper]. It sends GET requests without a body and without credentials, once
// each, and returns a redirect as an answer; the body has at most maxBytes. Its errors are those of [Client.Get].
func (c *Client) Transport(maxBytes int64) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet || r.Body != nil && r.Body != http.NoBody {
			return nil, errors.New("egress: only GET is ever sent, without a body")
		}
		return c.Get(r.Context(), Request{URL: r.URL.String(), Header: r.Header, MaxBytes: maxBytes})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Close closes idle connections. It ends no request and no session.
func (c *Client) Close() error {
	c.secure.CloseIdleConnections()
	c.single.CloseIdleConnections()
	c.plain.CloseIdleConnections()
	c.forward.CloseIdleConnections()
	return nil
}
