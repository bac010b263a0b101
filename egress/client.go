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
	"net/url"
	"os"
	"time"
)

// Client connects to where the policy allows, and nowhere else. It is safe for
// concurrent use.
type Client struct {
	cfg    Config
	policy *policy
	roots  *x509.CertPool

	secure, plain *http.Transport // to where the request goes
	forward       *http.Transport // of http, to the proxy that is sent the whole URL
}

const (
	maxHeaderBytes = 64 << 10
	idleConns      = 64
	idlePerHost    = 4
	idleFor        = 90 * time.Second
)

// New makes a Client. Its errors say which setting is wrong. Proxies that the
// environment names are those it names now.
func New(cfg Config) (*Client, error) {
	p, err := newPolicy(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Proxy == nil {
		if cfg.Proxy, err = environment(); err != nil {
			return nil, err
		}
	}
	c := &Client{cfg: cfg.withDefaults(), policy: p}
	if c.roots, err = roots(cfg.CAFile); err != nil {
		return nil, err
	}
	c.secure = c.transport(func(ctx context.Context, _, addr string) (net.Conn, error) {
		return c.dialFor(ctx, addr, false)
	})
	c.plain = c.transport(func(ctx context.Context, _, addr string) (net.Conn, error) {
		return c.dialFor(ctx, addr, true)
	})
	// What this one connects to is the proxy, which the operator chose: net/http
	// asks Proxy first, and Proxy never says that there is none.
	c.forward = c.transport((&net.Dialer{Timeout: c.cfg.ConnectTimeout}).DialContext)
	c.forward.Proxy = func(r *http.Request) (*url.URL, error) {
		proxy, err := c.proxy(r.URL)
		if err == nil && proxy == nil {
			err = errors.New("the proxy for this URL is gone")
		}
		return proxy, err
	}
	return c, nil
}

func (cfg Config) withDefaults() Config {
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "modproxy")
	cfg.ConnsPerHost = cmp.Or(cfg.ConnsPerHost, 64)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 10*time.Second)
	cfg.TLSTimeout = cmp.Or(cfg.TLSTimeout, 10*time.Second)
	cfg.HeaderTimeout = cmp.Or(cfg.HeaderTimeout, 30*time.Second)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 2*time.Minute)
	cfg.MinRate = cmp.Or(cfg.MinRate, 1024)
	cfg.RateWindow = cmp.Or(cfg.RateWindow, 30*time.Second)
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	return cfg
}

// transport makes a transport that connects with dial. It speaks HTTP/1.1 only, so
// that the bound on connections is one on requests too.
func (c *Client) transport(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        c.tlsConfig(),
		Protocols:              protocols,
		TLSHandshakeTimeout:    c.cfg.TLSTimeout,
		ResponseHeaderTimeout:  c.cfg.HeaderTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxConnsPerHost:        c.cfg.ConnsPerHost,
		MaxIdleConns:           idleConns,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleFor,
		DisableCompression:     true, // a Get decodes, within its bound
	}
}

func (c *Client) tlsConfig() *tls.Config {
	return &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}
}

func (c *Client) dialFor(ctx context.Context, addr string, plain bool) (net.Conn, error) {
	t, err := parseHostport(addr)
	if err != nil {
		return nil, err
	}
	t.plain = plain
	return c.connect(ctx, t)
}

// roots is the system's root certificates and those of file; nil if file is empty.
func roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("egress: root certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("egress: the system's root certificates: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("egress: root certificates: %s has no certificate in PEM form", file)
	}
	return pool, nil
}

// Close closes idle connections. It ends no request and no tunnel.
func (c *Client) Close() error {
	c.secure.CloseIdleConnections()
	c.plain.CloseIdleConnections()
	c.forward.CloseIdleConnections()
	return nil
}
