// Package app builds a proxy from a configuration, and runs it.
//
// # Use
//
//	a, err := app.New(ctx, c, app.Options{Log: os.Stderr}) // opens the data directory and listens
//	err = a.Serve(ctx, reload)                              // answers clients until ctx ends
//	err = errors.Join(err, a.Close())                       // releases everything, even after an error
//
// The caller handles signals: one signal ends the context, and another one may be passed to Serve to reload. [OpenBundle] opens a
// bundle instead of a data directory. [OpenAPI] opens a part of a data directory for a verb. The functions in stack.go stack the
// layers; the comment of online there states their order.
//
// # Invariants
//
// Only one process has the claim of a data directory. [App.Serve] stops in this order, within the time of the key shutdown:
//
//  1. Readiness fails, connections close after their current request, and work that no client waits for is cut.
//  2. Downloads in progress end. For two more seconds, the clients that waited for them can request their packages.
//  3. The listener closes. Running requests end. Those that do not end in time are answered 503.
//  4. Downloads that began in the meantime are cut.
//
// If a service manager has passed the listening socket ([Options].Listener), other processes accept its connections, too. The process
// then hands the data directory over to the next one, which waits for the claim, before it has sent all packages:
//
//  1. As above.
//  2. Downloads in progress and verbs of operators end. Until then this process answers new connections. It sends no package of a
//     provider whose download is in progress, except to clients that have received a part of it.
//  3. The process accepts no more connections: they wait in the kernel for the next process. Requests that take longer than a second
//     are redirected to their own URL, and so reach the next process. Downloads that began in the meantime are cut.
//  4. The data directory is closed, and its claim ends. The next process opens it.
//  5. Packages are sent to their end, from files that are open. A file that the next process removes stays readable.
//
// # Specification
//
// docs/reference/configuration.md specifies the configuration, and docs/reference/log-events.md the log.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	"github.com/modproxy/modproxy/webhook"
)

// Options are the settings of an App that are not in its configuration.
type Options struct {
	Version    string    // of the program
	ConfigFile string    // for the log
	Log        io.Writer // of the log, in JSON
	// Listener is the socket that a service manager has passed, and whose address is that of the configuration. Nil: New opens one.
	Listener *net.TCPListener
}

// An App is a proxy, or the opened part of one.
type App struct {
	parts
	layers

	rulesErr   atomic.Pointer[error] // why the rules in force are not those of the configuration; nil if they are
	rulesSeen  seen                  // hashes of the files of the rules; owned by one goroutine at a time, like restartFor
	restartFor []string              // the changed keys that need a restart, as last logged
	mirrors    mirrors
	inForce    atomic.Pointer[config.Config] // the configuration of the start, with the policy of the last reload
	reloads    chan chan<- reloadResult      // requests for a reload
	logLevel   zap.AtomicLevel

	started  time.Time
	claim    *datadir.Claim
	listener net.Listener
	webhooks *webhook.Receiver // nil offline, and without webhooks
	socket   net.Listener      // for the owner of the data directory; nil if the directory is read-only or the socket failed
	tls      *certificate      // nil without TLS
	url      string
	draining atomic.Bool
	requests httpx.Requests
	verbs    atomic.Int64 // running requests of operators

	frontWarned sync.Once
}

// New opens the proxy that c configures, and listens for clients. It logs problems that do not keep the proxy from working.
func New(ctx context.Context, c *config.Config, o Options) (_ *App, err error) {
	a := inside(c, o)
	a.started = time.Now()
	a.rulesSeen = lookAt(slices.Values(c.PolicyPaths()))
	a.inForce.Store(c)
	a.log, a.logLevel, a.flush = newLog(o.Log, c.Log.Level)
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
	if a.claim, err = datadir.ClaimToServe(ctx, c.Data, a.patience()); err != nil {
		return nil, err
	}
	a.closers.add(func(context.Context) error { return a.claim.Close() })
	if a.socket, err = a.claim.Listen(); err != nil {
		logEvent(a.log, "socket_failed", err, zap.String("note", "verbs need --server to operate this proxy"))
	} else if a.socket != nil { // a read-only directory has no socket
		a.closers.add(func(context.Context) error { a.socket.Close(); return nil }) // the server may have closed it
	}
	if err = a.listen(); err != nil {
		return nil, err
	}
	if err = a.open(ctx, a.listener.Addr()); err != nil {
		return nil, err
	}
	a.webhooks = a.newWebhooks()
	a.claim.Announce(a.url)
	return a, nil
}

// patience returns how long New waits for another process. The next process of a restart may be started a moment before the present one
// receives its signal.
func (a *App) patience() datadir.Patience {
	p := datadir.Patience{Ending: a.config.Shutdown + CloseTime, Begins: func(owner string) {
		logEvent(a.log, "data_awaited", nil, zap.String("owner", owner))
	}}
	if a.options.Listener != nil {
		p.Serving = 3 * time.Second
	}
	return p
}

// listen listens on the address of the configuration, unless a listening socket was passed, and reads the certificate.
func (a *App) listen() error {
	c := a.config
	listener := a.options.Listener
	if listener != nil {
		logEvent(a.log, "socket_passed", nil, zap.Stringer("address", listener.Addr()))
	} else {
		opened, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return hint.With(fmt.Errorf("listen: %w", err), "--listen takes another address, such as 127.0.0.1:8081")
		}
		listener = opened.(*net.TCPListener)
	}
	most := connections(c, openFiles())
	a.listener = httpx.NewListener(listener, most)
	a.closers.add(func(context.Context) error { a.listener.Close(); return nil }) // the server may have closed it
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && !c.RequiresToken() && !c.Anonymous.All {
		return config.Error{fmt.Errorf("listen: %s is %s, which other machines can reach: set auth.required: true", c.Listen, tcp)}
	}
	if most < c.Limits.Connections {
		logEvent(a.log, "connections_lowered", nil, zap.Int("connections", most), zap.Uint64("open_files", openFiles()))
	}
	a.metrics.MeasureRequests(a.requests.Running)
	var err error
	if a.tls, err = newCertificate(c.TLS, a.log); err != nil {
		return err
	}
	if a.tls != nil {
		a.metrics.MeasureCertificate(a.tls.notAfter)
	}
	bound := *c
	bound.Listen = listener.Addr().String() // if the configured port is 0, with the chosen port
	a.url, err = bound.LocalURL()
	return err
}

// inside returns an App without any opened part. It does not log.
func inside(c *config.Config, o Options) *App {
	return &App{
		parts:     parts{config: c, options: o, metrics: proxy.NewMetrics(), log: zap.NewNop(), flush: func() {}},
		rulesSeen: seen{}, reloads: make(chan chan<- reloadResult),
	}
}

// ReadOnly returns the reason why the data directory cannot be written, or nil.
func (a *App) ReadOnly() error { return a.disk.ReadOnly() }

// URL returns the URL of the proxy on this machine.
func (a *App) URL() string { return a.url }

// BaseURL returns the URL of the proxy for clients.
func (a *App) BaseURL() string { return strings.TrimRight(cmp.Or(a.config.PublicURL, a.url), "/") }

// TokensUnprotected reports whether clients send their tokens unencrypted, as far as the configuration shows.
func (a *App) TokensUnprotected() bool {
	tcp, ok := a.listener.Addr().(*net.TCPAddr)
	return ok && a.config.RequiresToken() && !tcp.IP.IsLoopback() && a.config.TLS.CertFile == "" &&
		!strings.HasPrefix(a.config.PublicURL, "https://")
}

// Serve answers clients until ctx ends. It reloads the rules of the policy and the certificate when it receives from reload.
func (a *App) Serve(ctx context.Context, reload <-chan os.Signal) error {
	idling, stop := context.WithCancel(ctx)
	var idle sync.WaitGroup
	idle.Go(func() { a.recheck.Run(modproxy.InBackground(idling)) })
	idle.Go(func() { a.runMirrors(modproxy.InBackground(idling)) })
	idle.Go(func() { a.followRules(idling, reload) })
	idle.Go(func() { a.checkFront(idling) })
	idle.Go(func() { a.warnUnbounded(idling) })
	if a.webhooks != nil {
		idle.Go(func() { a.webhooks.Run(idling) })
	}
	answering, answered := context.WithCancel(context.WithoutCancel(ctx))
	idle.Go(func() { a.pending.Run(answering) })
	idle.Go(func() { a.counts.Run(answering) })
	idle.Go(func() { a.missing.Run(answering) })
	endIdle := func() {
		stop()
		answered()
		idle.Wait()
	}
	defer endIdle()
	a.logStarted()
	if a.TokensUnprotected() {
		logEvent(a.log, "tokens_unprotected", nil, zap.String("listen", a.url))
	}
	return a.serveUntil(ctx, newServer(a.handler(), a.tls, a.log), endIdle)
}

func (a *App) logStarted() {
	c := a.config
	logEvent(a.log, "started", nil, zap.String("version", a.options.Version), zap.String("listen", a.url), zap.String("data", c.Data),
		zap.String("config", a.options.ConfigFile), zap.Bool("offline", c.Offline), zap.Bool("auth", c.RequiresToken()))
}

// CloseTime is the time for closing everything after the time of the key shutdown: twice the maximum wait for the data directory.
const CloseTime = 20 * time.Second

// Close closes the opened parts in reverse order. Downloads in progress are cut.
func (a *App) Close() error {
	err := a.closeParts()
	a.flush()
	return err
}

// closeParts closes the opened parts, and does nothing the second time.
func (a *App) closeParts() error {
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := a.closers.close(soon)
	a.closers = nil
	return err
}
