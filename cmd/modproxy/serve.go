package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/internal/systemd"
)

func newServeCommand(env *environment) *cobra.Command {
	var file string
	var keys []string
	cmd := withKeys(&cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `Run the proxy until SIGTERM or SIGINT. It then waits for running downloads,
stops listening two seconds after them, and waits for running requests, at most
for the time of the key shutdown. Then it exits with 0. A second signal ends it
at once.

On SIGHUP, it reloads the TLS certificate and the rules of the policy, logs
which other keys of the configuration have changed, and continues to serve.

A service manager can pass one listening TCP socket (LISTEN_FDS, as systemd
does). It is used in place of the key listen. On SIGTERM, modproxy then closes
its data directory early, so that the next process can answer while this one
still sends packages. NOTIFY_SOCKET is notified of READY and STOPPING.

Without configuration, it listens on 127.0.0.1:8080, stores its data in
modproxy-data, and proxies registry.terraform.io and registry.opentofu.org.

--bundle serves the content of a file of "modproxy export", and nothing else. It
needs no data directory, and sends no request to a registry.`,
		Example: `  modproxy serve
  modproxy serve --config /etc/modproxy.yaml --data /var/lib/modproxy
  modproxy serve --bundle all.bundle --key "$(cat ledger.key)"`,
		Args:       arguments(0, 0),
		SuggestFor: []string{"start", "run", "server"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return env.serve(cmd.Context(), file, keys) },
	}, "*")
	addFlag(cmd, &file, "bundle", "serve the content of this `file`, and nothing else", parseFile)
	addKeys(cmd, &keys)
	return cmd
}

// serve runs a proxy until ctx ends: the configured one, or one for the bundle in file.
func (env *environment) serve(ctx context.Context, file string, keys []string) error {
	hangup := make(chan os.Signal, 1) // keeps a signal that arrives during a reload
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	socket, err := systemd.Socket(env.variable)
	if err != nil {
		return err
	}
	var listen []config.Flag
	if socket != nil {
		defer socket.Close()
		listen = []config.Flag{{Name: "listen", Value: socket.Addr().String()}}
	}
	c, err := env.load(listen...)
	if err != nil {
		return err
	}
	defer env.endAtLast(ctx, c.Shutdown+app.CloseTime)()
	defer context.AfterFunc(ctx, func() { env.notify("STOPPING=1") })()
	env.tuneCollector(ctx, c)
	o := app.Options{Version: buildVersion(), ConfigFile: env.configFile(), Log: env.rawErr, Listener: socket}
	if file != "" {
		return env.serveBundle(ctx, c, o, file, keys)
	}
	a, err := app.New(ctx, c, o)
	if err != nil {
		return err
	}
	if err = env.announce(a, c); err == nil {
		env.notify("READY=1")
		err = a.Serve(ctx, hangup)
	}
	return errors.Join(err, a.Close())
}

// notify sends state to the service manager, if there is one. If that fails, it prints why: the service manager may end this process.
func (env *environment) notify(state string) {
	if err := systemd.Notify(env.variable("NOTIFY_SOCKET"), state); err != nil {
		fmt.Fprintf(env.stderr, "modproxy: %v\n", err)
	}
}

// endAtLast ends the process if done is not called within a time after ctx ends, for example because a disk does not answer. Acknowledged
// data is on the disk.
func (env *environment) endAtLast(ctx context.Context, after time.Duration) (done func()) {
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		select {
		case <-ended:
		case <-time.After(after):
			fmt.Fprintf(env.stderr, "modproxy: it did not end within %v after a signal: a disk may not answer\n", after)
			os.Exit(exitFailed)
		}
	}()
	return func() { close(ended) }
}

// serveBundle serves the bundle in file.
func (env *environment) serveBundle(ctx context.Context, c *config.Config, o app.Options, file string, keys []string) error {
	b, err := app.OpenBundle(c, o, file, keys)
	if err != nil {
		return err
	}
	r := b.Registry
	text := fmt.Sprintf("modproxy listens on %s and serves %s of bundle %d of chain %s\n", b.URL(), count(r.Count(), "version"), r.Sequence(), r.Chain())
	if n := len(r.Index.Before); n > 0 {
		text += fmt.Sprintf("It does not have the %s that earlier bundles of the chain brought.\n", count(n, "version"))
	}
	err = env.printf("%s\n%s", text, b.ClientConfig())
	if err == nil {
		env.notify("READY=1")
		err = b.Serve(ctx)
	}
	return errors.Join(err, b.Close())
}

// announce prints the URL of the proxy and the next steps.
func (env *environment) announce(a *app.App, c *config.Config) error {
	var b strings.Builder
	fmt.Fprintf(&b, "modproxy listens on %s and keeps its data in %s\n\n", a.URL(), c.Data)
	if a.ReadOnly() != nil {
		b.WriteString("The data directory is read-only: cached packages are served, and no new ones are stored.\n\n")
	}
	b.WriteString(app.ClientConfig(a.BaseURL(), "", false, c, nil)) // the login of clients is not known yet
	if c.PublicURL == "" && listensEverywhere(c.Listen) {
		b.WriteString("\nOther machines cannot use localhost: set public_url to the URL that clients use.\n")
	}
	if a.TokensUnprotected() {
		b.WriteString("\nClients send their tokens to this proxy unencrypted: set tls.cert_file and\ntls.key_file, or public_url to the https URL that clients use.\n")
	}
	if a.NobodyHasToken() {
		fmt.Fprintf(&b, "\nClients need a token, but none exists: %s.\nTo make one:\n\n  modproxy token create NAME --scope '*' --data %s\n\nWith \"anonymous: true\" clients need none.\n", c.RequiresTokenBecause(), clean.ShellQuote(c.Data))
	}
	return env.printf("%s", b.String())
}

// listensEverywhere reports whether a listen address means every interface.
func listensEverywhere(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "" || ip.IsUnspecified())
}

// tuneCollector adapts the pace of the garbage collector until ctx ends, unless GOGC or GOMEMLIMIT set it. A request allocates a few
// kilobytes. With the default of Go and the few megabytes that a small proxy uses, the collector would run tens of times a second under
// load.
func (env *environment) tuneCollector(ctx context.Context, c *config.Config) {
	if env.variable("GOGC") != "" || env.variable("GOMEMLIMIT") != "" { // Go treats an empty variable as unset, too
		return
	}
	tune := func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		percent, limit := collecting(int64(live[0].Value.Uint64()), int64(c.Cache.Memory))
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
	tune()
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for ctx.Err() == nil {
			select {
			case <-ticker.C:
				tune()
			case <-ctx.Done():
			}
		}
	}()
}

// collecting returns GOGC (garbage in percent of live memory) and the memory limit above which the collector runs more often. live and held
// are bytes. The amount of garbage keeps the cost of collecting small for requests; for a proxy with much live memory it is half of that.
func collecting(live, held int64) (percent int, limit int64) {
	const garbage = 64 << 20
	return int(max(50, min(400, 100*garbage/max(live, 1)))), max(2*live, 2*held+256<<20)
}

func newHealthCommand(env *environment) *cobra.Command {
	var base string
	cmd := withKeys(&cobra.Command{
		Use:   "health",
		Short: "Check whether a running modproxy answers",
		Long: `Request /-/healthz from the proxy that this configuration describes, or from the
one at --url, and exit with 0 if the proxy answers 200 within 5 seconds.`,
		Example: `  modproxy health
  modproxy health --url https://modules.example.com`,
		Args:       arguments(0, 0),
		SuggestFor: []string{"ping"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return env.checkHealth(cmd.Context(), base) },
	}, "listen", "tls-cert", "tls-key")
	addFlag(cmd, &base, "url", "`URL` of the proxy to check (listen)", parseURL)
	return withJSON(cmd, `"url", "status"`, "")
}

// checkHealth returns an error unless the proxy at base answers. An empty base means the configured proxy.
func (env *environment) checkHealth(ctx context.Context, base string) error {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // ignore HTTP proxies of the environment
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if base == "" {
		c, err := env.settings()
		if err != nil {
			return err
		}
		if base, err = c.LocalURL(); err != nil {
			return err
		}
		// The request stays on this machine and has no secret. Only the status of the answer counts, and certificates seldom name the
		// loopback address.
		client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	base = strings.TrimRight(base, "/")
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/-/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		if u, ok := err.(*url.Error); ok {
			err = u.Err
		}
		advice := "is modproxy running? --url says where"
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			advice = "name the certificate's authority in SSL_CERT_FILE, or use a name that the certificate has"
		}
		return hint.With(fmt.Errorf("health of %s: %w", base, err), advice)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health of %s: %s", base, resp.Status)
	}
	return env.print(map[string]string{"url": base, "status": "ok"}, "ok\n")
}
