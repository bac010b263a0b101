// Package egress makes every outgoing connection of the proxy, within one policy.
//
//	c, err := egress.New(egress.Config{Allow: allow})
//	resp, err := c.Get(ctx, egress.Request{URL: url, Redirects: 3})
//
// Invariants: a direct connection goes only to an address that the policy allows. The address is checked at the time of
// connecting. Earlier look-ups, the form of a URL and the target of a redirect do not count. git, which connects by itself,
// goes through a [Session], which applies the same policy. For ssh, git connects to the address that [Client.Resolve] returned.
//
// A proxy of the environment ([Config]) is itself not checked. Behind a proxy, the policy applies to what the proxy is asked to
// connect to. If the proxy looks names up itself ([Config.ProxyNames], socks5h, and names in [Config.Allow]), the policy checks
// the name and the port, and, unless Config.Allow contains the name, the addresses that this machine finds for it, if any. The
// address to which the proxy connects is then subject to the proxy's rules.
//
// The policy allows globally reachable addresses, on port 443 and the ports of [Config.Ports], with TLS. [Config.Allow] lists
// exceptions for internal addresses, other ports and plain http. Globally reachable are the addresses that IANA lists so
// (https://www.iana.org/assignments/iana-ipv4-special-registry/ and
// https://www.iana.org/assignments/iana-ipv6-special-registry/).
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

// Errors of this package, in addition to those of packages net, crypto/tls and context.
var (
	// ErrRefused means that the policy does not allow the destination, or that such a URL is never requested: it cannot be
	// parsed, has another scheme than http and https, has user information, or has a host that is neither a hostname in ASCII
	// nor a plain address. A retry does not help.
	ErrRefused = errors.New("destination not allowed")
	// ErrTooLarge means that a body, or all data received by a session, exceeds its limit.
	ErrTooLarge = errors.New("larger than allowed")
	// ErrTooSlow means that a body arrived below the minimum rate: 1 KiB a second, on average over 30 seconds of waiting for an
	// archive or for the response to a Post, and over 10 seconds for other bodies. A session ends a connection without traffic
	// for two minutes with it.
	ErrTooSlow = errors.New("too slow")
	// ErrStalled is an [ErrTooSlow]: no bytes of a body arrived in this time. A retry may help.
	ErrStalled = fmt.Errorf("%w: nothing came", ErrTooSlow)
	// ErrAnswer means an unusable response: a partial body, an unexpected content coding, a body of unknown end. Too many
	// redirects and a used-up [Budget] are an ErrAnswer, too.
	ErrAnswer = errors.New("unusable response")
	// ErrProxy means that a proxy variable of the environment cannot be used. [New] returns it.
	ErrProxy = errors.New("want the URL of a proxy")
)

// Config configures a [Client]. The zero value is safe.
//
// HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in the environment of [New] determine which URLs are reached through a proxy,
// over http, https, socks5 or socks5h.
type Config struct {
	// Allow lists exceptions: a hostname ("git.example.com"), an address ("10.0.0.5", "fd00::5"), either with a port
	// ("10.0.0.5:8443", "[fd00::5]:8443"), or a CIDR ("10.0.0.0/8"). An exception without a port applies to every port. A
	// hostname is excepted with all addresses that it resolves to, but only for requests with that name.
	Allow []string
	// Ports are allowed in addition to 443.
	Ports []int
	// Listening are the addresses on which this process listens. They are refused even if Allow contains them. An unspecified
	// address (0.0.0.0, ::) means every address of this machine.
	Listening []netip.AddrPort
	// ProxyNames sends hostnames to an http or https proxy, which looks them up. Without it, the proxy receives an address that
	// the policy allows, or a hostname that Allow contains. A socks5 proxy always receives addresses, a socks5h proxy
	// hostnames.
	ProxyNames bool
	// CAFile is the name of a PEM file with root certificates to trust in addition to the system's.
	CAFile string
	// NoHedging makes Hedges report false.
	NoHedging bool
	// UserAgent is sent with every request. Empty: "modproxy".
	UserAgent string
	// Resolver looks up hostnames. Nil: the system's resolver.
	Resolver Resolver
}

// Resolver looks up the addresses of a host. [net.Resolver] implements it. Network is always "ip".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	maxHeaderBytes = 64 << 10
	connsPerHost   = 64 // per host and port
	idlePerHost    = 16 // idle connections per host: as many as concurrent packages or requests for one host
	connectTimeout = 10 * time.Second
	tlsTimeout     = 10 * time.Second
	headerTimeout  = 30 * time.Second // from the request to the end of the response's header
	streamBytes    = 1 << 20          // of an HTTP/2 body that are received before they are read
	pingAfter      = 5 * time.Second  // silence before an HTTP/2 connection is pinged, and then until it is closed
	idleTimeout    = 2 * time.Minute  // for a tunnelled connection without traffic
	minRate        = 1024             // bytes per second of a body, on average over rateWindow
	rateWindow     = 30 * time.Second // of waiting for the body; a third of it for documents
)

// Client connects only to destinations that the policy allows. It is safe for concurrent use.
type Client struct {
	cfg    Config // with its defaults
	policy *policy
	tls    *tls.Config
	proxy  func(*url.URL) (*url.URL, error) // returns the proxy for a URL, or nil

	secure, single *http.Transport // https to the destination: with HTTP/2 if offered, and with HTTP/1.1 only
	fresh          *http.Transport // https with HTTP/1.1, a new connection for each request
	plain          *http.Transport // http to the destination
	forward        *http.Transport // http to a proxy that receives the whole URL
	hosts          hosts           // https destinations

	idle, window time.Duration // idleTimeout and rateWindow; tests shorten them
}

// New returns a Client. Its error names the wrong setting.
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
	// forward connects to the proxy only, which the operator chose.
	c.forward = c.transport(true)
	c.forward.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	c.forward.Proxy = func(r *http.Request) (*url.URL, error) { return c.proxy(r.URL) }
	return c, nil
}

// transport returns an HTTP/1.1 transport that connects under the policy. It reuses connections for requests to the same host
// and port, because the policy does not change during the life of c.
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
		DisableCompression:     true, // body decompresses, within its limit
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamBytes,
			SendPingTimeout:           pingAfter,
			PingTimeout:               pingAfter,
			WriteByteTimeout:          headerTimeout,
		},
	}
}

// rootCertificates returns the system's certificates and those of file. If file is empty, it returns nil.
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

// Hedges reports whether requests may be hedged: sent a second time, in parallel, if the response is late (package hedge). It is
// the opposite of [Config.NoHedging]. The Client observes it itself. Packages that hedge their own requests must ask it.
func (c *Client) Hedges() bool { return !c.cfg.NoHedging }

// Transport returns c as an [http.RoundTripper]. It sends only GET requests, each once, and returns redirects as responses. The
// body of a response has at most maxBytes. A request with another method, a body or a credential in its header is not sent: the
// error is a mistake of the caller. Other errors are those of [Client.Get].
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

// Close closes idle connections. Requests and sessions continue.
func (c *Client) Close() error {
	c.secure.CloseIdleConnections()
	c.single.CloseIdleConnections()
	c.plain.CloseIdleConnections()
	c.forward.CloseIdleConnections()
	return nil
}
