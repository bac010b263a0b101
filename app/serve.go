package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/proxy"
)

// Options are what an App needs besides its configuration.
type Options struct {
	Version    string       // of the program
	ConfigFile string       // for the log
	Log        io.Writer    // of the log, in JSON; nil for none
	Socket     net.Listener // in the data directory, for its owner; nil for none
	NoSocket   error        // why there is none, for the log
}

// What a client may take to ask. How long an answer takes is not bounded here: a
// package is as long as it is.
const (
	headerTimeout  = 10 * time.Second
	requestTimeout = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeader      = 64 << 10 // bytes
)

// newServer is the server without its certificate. It speaks HTTP/1.1 only: clients
// print the reason phrase of an error, which HTTP/2 does not have, and ask for one
// thing after another.
func newServer(h http.Handler, log *zap.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Protocols:         &protocols,
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       admin.ConnContext,
		ErrorLog:          zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(max(zap.WarnLevel, log.Level())))),
	}
}

// Listen opens what c describes, and listens for clients. Serve answers them.
func Listen(ctx context.Context, c *config.Config, o Options) (_ *App, err error) {
	log, flush := newLog(o.Log, c.Log.Level)
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		flush()
		return nil, hint.With(fmt.Errorf("listen: %w", err), "--listen takes another address, such as 127.0.0.1:8081")
	}
	defer func() {
		if err != nil {
			listener.Close()
			flush()
		}
	}()
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && !c.RequiresToken() && !c.Anonymous {
		return nil, config.Error{fmt.Errorf("listen: %s is %s, which other machines can reach: say auth.required: true", c.Listen, tcp)}
	}
	most := connections(c, openFiles())
	if most < c.Limits.Connections {
		log.Warn("connections_lowered", zap.Int("connections", most), zap.Uint64("open_files", openFiles()))
	}
	s, err := open(ctx, c, listener.Addr(), log, o)
	if err != nil {
		return nil, err
	}
	s.flush, s.listener, s.options = flush, netutil.LimitListener(listener, most), o
	bound := *c
	bound.Listen = listener.Addr().String() // with the port that was free, if any would do
	s.config = &bound
	if s.tls, err = newCertificate(c.TLS); err == nil {
		s.url, err = bound.LocalURL()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Config returns the configuration, with the address that is listened on.
func (s *App) Config() *config.Config { return s.config }

// URL returns where this machine finds the proxy.
func (s *App) URL() string { return s.url }

// Serve answers clients until ctx ends, and reloads what can be at each hangup.
func (s *App) Serve(ctx context.Context, hangup <-chan os.Signal) error {
	idling, stop := context.WithCancel(ctx)
	var idle sync.WaitGroup
	idle.Go(func() { s.recheck.Run(idling) })
	idle.Go(func() { s.followHangups(idling, hangup) })
	defer idle.Wait()
	defer stop()
	server := newServer(s.handler(s.config, knownHosts(s.listener.Addr(), s.tls)), s.log)
	if s.tls != nil {
		server.TLSConfig = s.tls.config()
	}
	s.logStarted()
	if err := s.options.NoSocket; err != nil {
		s.log.Warn("socket_failed", zap.Error(err), zap.String("note", "verbs need --server to operate this proxy"))
	}
	if s.TokensUnprotected() {
		s.log.Warn("tokens_unprotected", zap.String("listen", s.url))
	}
	return serveUntil(ctx, server, s.listener, s.config.Shutdown, s)
}

// home is what a browser is shown.
func home(c *config.Config) func(base string) string {
	return func(base string) string {
		var b strings.Builder
		b.WriteString("modproxy, a caching proxy for module registries of Terraform and OpenTofu.\n\n")
		if base == "" {
			b.WriteString("It does not know the address that you see it under: set public_url.\n")
			return b.String()
		}
		if err := ClientConfig(&b, base, "", c.Upstreams, c.RequiresToken()); err != nil {
			return b.String()
		}
		return b.String()
	}
}

// handler is the HTTP side of the stack.
func (s *App) handler(c *config.Config, known func(string) bool) http.Handler {
	upstreams := proxy.Upstreams{Hosts: map[string]bool{}, Private: map[string]bool{}, Namespaces: map[string]string{}}
	for _, u := range c.Upstreams {
		switch {
		case u.Host == "*":
			upstreams.Any = true
			continue
		case upstreams.Default == "":
			upstreams.Default = u.Host
		}
		upstreams.Hosts[u.Host] = true
		upstreams.Private[u.Host] = !u.Token.IsZero()
	}
	for _, r := range c.Routes {
		upstreams.Namespaces[r.Namespace] = r.Upstream
	}
	return proxy.New(proxy.Config{
		Registry:       s.Registry,
		Providers:      s.provider,
		Upstreams:      upstreams,
		PublicURL:      strings.TrimRight(c.PublicURL, "/"),
		Known:          known,
		Local:          s.auth == nil && !c.Anonymous,
		Auth:           s.auth,
		Operators:      s.operators,
		Limits:         proxy.Limits{Requests: c.Limits.Requests, Rate: c.Limits.Rate},
		TrustedProxies: c.TrustedProxies,
		Log:            s.log,
		Metrics:        s.metrics,
		Ready:          s.ready,
		Mounts:         slices.Concat(sumDBMounts(s.Ledger), operatorMounts(s.api())),
		Operator:       admin.FromSocket,
		Home:           home(c),
	})
}
