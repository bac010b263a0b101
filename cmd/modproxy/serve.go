package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/proxy"
)

func newServeCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `Run the proxy until SIGTERM or SIGINT. It then ends running fetches, stops
listening two seconds after them, ends running requests, all within the time of the
key shutdown, and exits with 0. A second signal ends it at once. SIGHUP reloads the TLS certificate and ends nothing.

Without any configuration it listens on 127.0.0.1:8080, keeps its data in
modproxy-data, and proxies registry.terraform.io and registry.opentofu.org.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			hangup, stop := hangups() // before anything is read, which may take its time
			defer stop()
			c, _, err := env.load()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), env, c, hangup)
		},
	}
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
		ErrorLog:          zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(max(zap.WarnLevel, log.Level())))),
	}
}

// serve runs the proxy until ctx ends, and follows what comes by hangup.
func serve(ctx context.Context, env *environment, c *config.Config, hangup <-chan os.Signal) (err error) {
	log, flush := newLog(env.stderr, c.Log.Level)
	defer flush()
	env.tuneGarbage(c)
	own, err := claimToServe(ctx, c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.close()) }()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return hint.With(fmt.Errorf("listen: %w", err), "--listen takes another address, such as 127.0.0.1:8081")
	}
	defer listener.Close()
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && !c.RequiresToken() && !c.Anonymous {
		return misuse{fmt.Errorf("listen: %s is %s, which other machines can reach: say auth.required: true", c.Listen, tcp)}
	}
	most := connections(c, openFiles())
	if most < c.Limits.Connections {
		log.Warn("connections_lowered", zap.Int("connections", most), zap.Uint64("open_files", openFiles()))
	}
	listener = netutil.LimitListener(listener, most)
	stack, err := newStack(ctx, c, listener.Addr(), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.close()) }()
	stack.claim, stack.listening = own, listener.Addr()
	if stack.tls, err = newCertificate(c.TLS); err != nil {
		return err
	}
	idling, stop := context.WithCancel(ctx)
	var idle sync.WaitGroup
	idle.Go(func() { stack.recheck.run(idling) })
	idle.Go(func() { stack.followHangups(idling, hangup) })
	defer idle.Wait()
	defer stop()
	server := newServer(stack.handler(c, knownHosts(listener.Addr(), stack.tls)), log)
	if stack.tls != nil {
		server.TLSConfig = stack.tls.config()
	}
	bound := *c
	bound.Listen = listener.Addr().String() // with the port that was free, if any would do
	local, err := bound.LocalURL()
	if err != nil {
		return err
	}
	if err := own.announce(local); err != nil {
		return err
	}
	if err := env.announce(&bound, local, stack); err != nil {
		return err
	}
	logStarted(log, c, local, env.flags.file())
	if unprotected(c, listener.Addr()) {
		log.Warn("tokens_unprotected", zap.String("listen", local))
	}
	return serveUntil(ctx, server, listener, c.Shutdown, stack)
}

// announce tells the person at the terminal where the proxy is and what to do next.
func (env *environment) announce(c *config.Config, local string, stack *stack) error {
	base, err := c.BaseURL()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "modproxy listens on %s and keeps its data in %s\n\n", local, c.Data)
	if stack.store.ReadOnly() != nil {
		b.WriteString("The data directory is read-only: what is kept is served, and nothing more is kept.\n\n")
	}
	if err := clientConfig(&b, base, "", c.Upstreams, stack.auth != nil); err != nil {
		return err
	}
	if c.PublicURL == "" && listensEverywhere(c.Listen) {
		b.WriteString("\nOther machines cannot use localhost: set public_url to the URL that clients use.\n")
	}
	if unprotected(c, stack.listening) {
		b.WriteString("\nTokens are shown to this proxy unencrypted, and who sees one can use it: set\ntls.cert_file and tls.key_file, or public_url to the https URL that clients use.\n")
	}
	if stack.nobodyMayAsk() {
		fmt.Fprintf(&b, "\nNobody has a token yet, and clients have to show one: %s.\nTo make one:\n\n  modproxy token create NAME --scope '*' --data %s\n\n\"anonymous: true\" would let in whoever can connect.\n", c.RequiresTokenBecause(), shellQuote(c.Data))
	}
	_, err = fmt.Fprint(env.stdout, b.String())
	return err
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
		if err := clientConfig(&b, base, "", c.Upstreams, c.RequiresToken()); err != nil {
			return b.String()
		}
		return b.String()
	}
}

// handler is the HTTP side of the stack.
func (s *stack) handler(c *config.Config, known func(string) bool) http.Handler {
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
	trusted := make([]netip.Prefix, 0, len(c.TrustedProxies))
	for _, t := range c.TrustedProxies {
		if p, err := config.ParseNetwork(t); err == nil { // checked when it was read
			trusted = append(trusted, p)
		}
	}
	return proxy.New(proxy.Config{
		Registry:       s.registry,
		Providers:      s.provider,
		Upstreams:      upstreams,
		PublicURL:      strings.TrimRight(c.PublicURL, "/"),
		Known:          known,
		Local:          s.auth == nil && !c.Anonymous,
		Auth:           s.auth,
		Operators:      s.operators,
		Limits:         proxy.Limits{Requests: c.Limits.Requests, Rate: c.Limits.Rate},
		TrustedProxies: trusted,
		Log:            s.log,
		Metrics:        s.metrics,
		Ready:          s.ready,
		Mounts:         s.mounts(),
		Operator:       s.claim.admits,
		Home:           home(c),
	})
}
