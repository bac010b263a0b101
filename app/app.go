// Package app composes modproxy from a configuration, and runs it.
//
// [New] opens the data directory, of which no other process may have the claim, listens, and stacks the layers;
// read online in stack.go from its end to follow a request. [App.Serve] answers clients until its context ends. Then it
// stops in this order, all within the time of the key shutdown: readiness fails, connections are no longer kept alive,
// and what no client waits for is cut; the fetches that run end, and for two seconds more the clients that waited for
// them can ask for their packages; the listener closes; running requests end, and those that do not are answered 503;
// fetches that began meanwhile are cut. [App.Close] releases everything, also after an error. Signals are the
// caller's: one of them ends the context, and another may be passed on for reloading.
package app

import (
	"cmp"
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
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/proxy"
)

// Options are what an App needs besides its configuration.
type Options struct {
	Version    string    // of the program
	ConfigFile string    // for the log
	Log        io.Writer // of the log, in JSON
}

// App is modproxy, or the part of it that is open.
type App struct {
	parts
	layers

	rulesErr   atomic.Pointer[error] // why the rules in force are not those of the configuration; nil if they are
	rulesSeen  seen                  // where the rules come from; owned by one goroutine at a time, like restartFor
	restartFor []string              // the keys that were reported to count from the next start
	mirrors    mirrors

	claim    *datadir.Claim
	listener net.Listener
	socket   net.Listener // for the owner of the data directory; may be nil
	tls      *certificate // nil without TLS
	url      string
	draining atomic.Bool

	frontWarned sync.Once
}

// New opens what c describes, and listens for clients. The log has what does not keep it from working.
func New(ctx context.Context, c *config.Config, o Options) (_ *App, err error) {
	a := inside(c, o)
	a.rulesSeen = lookAt(slices.Values(c.PolicyPaths()))
	a.log, a.flush = newLog(o.Log, c.Log.Level)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err = CheckKeys(c); err != nil {
		return nil, err
	}
	if err := c.Deprecated(); err != nil {
		logEvent(a.log, "config_deprecated", err)
	}
	if a.claim, err = datadir.ClaimToServe(ctx, c.Data); err != nil {
		return nil, err
	}
	a.closers.add(func(context.Context) error { return a.claim.Close() })
	if a.socket, err = a.claim.Listen(); err != nil {
		logEvent(a.log, "socket_failed", err, zap.String("note", "verbs need --server to operate this proxy"))
	} else if a.socket != nil { // a directory that is read-only has none
		a.closers.add(func(context.Context) error { a.socket.Close(); return nil }) // the server may have closed it
	}
	if err = a.listen(); err != nil {
		return nil, err
	}
	if err = a.open(ctx, a.listener.Addr()); err != nil {
		return nil, err
	}
	a.claim.Announce(a.url)
	return a, nil
}

// listen listens on the address of the configuration, and reads the certificate.
func (a *App) listen() error {
	c := a.config
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return hint.With(fmt.Errorf("listen: %w", err), "--listen takes another address, such as 127.0.0.1:8081")
	}
	most := connections(c, openFiles())
	a.listener = httpx.NewListener(listener.(*net.TCPListener), most)
	a.closers.add(func(context.Context) error { a.listener.Close(); return nil }) // the server may have closed it
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && !c.RequiresToken() && !c.Anonymous.All {
		return config.Error{fmt.Errorf("listen: %s is %s, which other machines can reach: say auth.required: true", c.Listen, tcp)}
	}
	if most < c.Limits.Connections {
		logEvent(a.log, "connections_lowered", nil, zap.Int("connections", most), zap.Uint64("open_files", openFiles()))
	}
	if a.tls, err = newCertificate(c.TLS, a.log); err != nil {
		return err
	}
	if a.tls != nil {
		a.metrics.MeasureCertificate(a.tls.notAfter)
	}
	bound := *c
	bound.Listen = listener.Addr().String() // with the port that was free, if any would do
	a.url, err = bound.LocalURL()
	return err
}

// inside returns an App of which nothing is open, and which does not log.
func inside(c *config.Config, o Options) *App {
	return &App{
		parts:     parts{config: c, options: o, metrics: proxy.NewMetrics(), log: zap.NewNop(), flush: func() {}},
		rulesSeen: seen{},
	}
}

// ReadOnly returns why nothing more can be kept, or nil.
func (a *App) ReadOnly() error { return a.disk.ReadOnly() }

// URL returns where this machine finds the proxy.
func (a *App) URL() string { return a.url }

// BaseURL returns where clients find the proxy.
func (a *App) BaseURL() string { return strings.TrimRight(cmp.Or(a.config.PublicURL, a.url), "/") }

// TokensUnprotected reports whether clients show their tokens unencrypted, as far as is known.
func (a *App) TokensUnprotected() bool {
	tcp, ok := a.listener.Addr().(*net.TCPAddr)
	return ok && a.config.RequiresToken() && !tcp.IP.IsLoopback() && a.config.TLS.CertFile == "" &&
		!strings.HasPrefix(a.config.PublicURL, "https://")
}

// Serve answers clients until ctx ends, and reloads what it can whenever there is something to receive.
func (a *App) Serve(ctx context.Context, reload <-chan os.Signal) error {
	idling, stop := context.WithCancel(ctx)
	var idle sync.WaitGroup
	idle.Go(func() { a.recheck.Run(modproxy.InBackground(idling)) })
	idle.Go(func() { a.runMirrors(modproxy.InBackground(idling)) })
	idle.Go(func() { a.followRules(idling, reload) })
	idle.Go(func() { a.checkFront(idling) })
	answering, answered := context.WithCancel(context.WithoutCancel(ctx))
	idle.Go(func() { a.pending.Run(answering) })
	idle.Go(func() { a.counts.Run(answering) })
	idle.Go(func() { a.missing.Run(answering) })
	defer idle.Wait()
	defer answered()
	defer stop()
	a.logStarted()
	if a.TokensUnprotected() {
		logEvent(a.log, "tokens_unprotected", nil, zap.String("listen", a.url))
	}
	return a.serveUntil(ctx, newServer(a.handler(), a.tls, a.log))
}

func (a *App) logStarted() {
	c := a.config
	logEvent(a.log, "started", nil, zap.String("version", a.options.Version), zap.String("listen", a.url), zap.String("data", c.Data),
		zap.String("config", a.options.ConfigFile), zap.Bool("offline", c.Offline), zap.Bool("auth", c.RequiresToken()))
}

// Close releases what is open, the last first. Downloads in progress are cut.
func (a *App) Close() error {
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := a.closers.close(soon)
	a.flush()
	return err
}

const (
	lingerTime = 2 * time.Second        // for clients that waited for a fetch to ask for its package
	lastWords  = 500 * time.Millisecond // for sending the answer that the proxy ends
)

// serveUntil serves until ctx ends, then until all requests and fetches do, or the time of the key shutdown is over.
func (a *App) serveUntil(ctx context.Context, server *http.Server) error {
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	server.BaseContext = func(net.Listener) context.Context { return requests }
	if b, ok := a.listener.(*httpx.Listener); ok {
		server.ConnState = b.ConnState
	}
	served := make(chan error, 1)
	go func() { served <- a.accept(server) }()
	if a.socket != nil {
		go server.Serve(a.socket) // ends with the server
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	began := time.Now()
	logEvent(a.log, "stopping", nil, zap.String("signal", signalOf(ctx)))
	a.draining.Store(true)
	a.endPrefetching()
	a.Cache.EndBackground()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.Shutdown)
	defer cancel()
	server.SetKeepAlivesEnabled(false)
	a.linger(deadline)
	if err := server.Shutdown(deadline); err != nil {
		cut(httpx.ErrShuttingDown)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close() // what is still being sent is cut: clients notice
		}
	}
	end, _ := deadline.Deadline()
	last, cancelLast := context.WithDeadline(context.WithoutCancel(ctx), end.Add(lastWords))
	defer cancelLast()
	if err := a.nested.Close(last); err != nil { // they were told to end
		logEvent(a.log, "preparations_left", err)
	}
	var left []string
	for v := range a.Cache.Fetching() {
		left = append(left, v.Shown())
	}
	slices.Sort(left)
	if err := a.Cache.Close(deadline); err != nil {
		logEvent(a.log, "fetches_cut", err, zap.Strings("modules", left))
	}
	logEvent(a.log, "stopped", nil, zap.Float64("seconds", time.Since(began).Seconds()))
	return nil
}

// accept has server answer those that connect, until it is closed.
func (a *App) accept(server *http.Server) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(a.listener, "", "")
	}
	return server.Serve(a.listener)
}

// linger waits for the fetches that run, and then for a moment, but no longer than ctx.
func (a *App) linger(ctx context.Context) {
	running := a.Cache.Fetching()
	for _, done := range running {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	if len(running) > 0 {
		moment, cancel := context.WithTimeout(ctx, lingerTime)
		defer cancel()
		<-moment.Done()
	}
}

// signalOf returns the name of the signal that has ended ctx.
func signalOf(ctx context.Context) string {
	return strings.TrimSuffix(context.Cause(ctx).Error(), " signal received")
}
