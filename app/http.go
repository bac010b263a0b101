package app

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/proxy"
)

// Bounds on requests. The time of an answer is not bounded here: packages may be large.
const (
	headerTimeout  = 10 * time.Second
	requestTimeout = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeader      = 64 << 10 // bytes
)

// newServer returns a server with the certificate c, which may be nil. It speaks HTTP/1.1 only: clients print
// the reason phrase of an error, which HTTP/2 does not have, and ask for one thing after another.
func newServer(h http.Handler, c *certificate, log *zap.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	server := &http.Server{
		Protocols:         &protocols,
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       ownerByConn,
		ErrorLog:          zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(max(zap.WarnLevel, log.Level())))),
	}
	if c != nil {
		server.TLSConfig = c.config()
	}
	return server
}

// handler returns what answers requests.
func (a *App) handler() http.Handler {
	c := a.config
	upstreams := proxy.Upstreams{
		Default: c.DefaultHost(), Hosts: map[string]bool{}, Private: map[string]bool{}, Namespaces: map[string]string{},
	}
	for _, u := range c.Upstreams {
		if u.Host == "*" {
			upstreams.Any = true
		} else {
			upstreams.Hosts[u.Host], upstreams.Private[u.Host] = true, !u.Token.IsZero()
		}
	}
	for _, r := range c.Routes {
		upstreams.Namespaces[r.Namespace] = r.Upstream
	}
	return proxy.New(proxy.Config{
		Registry:       a.Registry,
		Providers:      a.providers,
		Upstreams:      upstreams,
		PublicURL:      strings.TrimRight(c.PublicURL, "/"),
		Process:        process{a, addresses(a.listener.Addr())},
		Local:          a.auth == nil && !c.Anonymous,
		Auth:           a.auth,
		Operators:      a.operators,
		Limits:         proxy.Limits{Requests: c.Limits.Requests, Rate: c.Limits.Rate},
		TrustedProxies: c.TrustedProxies,
		Log:            a.log,
		Metrics:        a.metrics,
		Mounts:         slices.Concat(sumDBMounts(a.Ledger), operatorMounts(a.api())),
	})
}

// connections returns how many clients may be connected: as many as are configured, unless files would be
// lacking for what is kept and fetched then. limit is how many files the process may have open, or zero if that
// is not known.
func connections(c *config.Config, limit uint64) int {
	if limit == 0 {
		return c.Limits.Connections
	}
	others := min(limit, uint64(32+6*c.Fetch.AtOnce)) // open at all times, and for each fetch
	return int(max(1, min(uint64(c.Limits.Connections), max(limit/4, limit-others))))
}
