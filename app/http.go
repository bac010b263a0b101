package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	stdlog "log"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/proxy"
)

// newServer returns a server with the certificate c, which may be nil. It speaks only HTTP/1.1, because clients print the reason
// phrase of an error, which HTTP/2 does not have. The time of an answer is not limited, because packages may be large.
func newServer(h http.Handler, c *certificate, log *zap.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	server := &http.Server{
		Protocols:         &protocols,
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       withConn,
		ErrorLog:          stdlog.New(&serverLog{log: log}, "", 0),
	}
	if c != nil {
		server.TLSConfig = &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
		}
	}
	return server
}

// withConn returns the context for the requests of a connection. Requests on the Unix socket are from the owner of the data
// directory.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if _, ok := c.(*net.UnixConn); ok {
		return auth.WithPrincipal(ctx, auth.Owner)
	}
	return httpx.ConnContext(ctx, c)
}

// upstreamsOf returns the upstreams from which the registry of a request is chosen.
func upstreamsOf(c *config.Config) protocol.Upstreams {
	upstreams := protocol.Upstreams{
		Default: c.DefaultHost(), Hosts: map[string]bool{}, Namespaces: map[string]string{}, Docs: map[string]string{},
	}
	for _, u := range c.Upstreams {
		if u.Host == "*" {
			upstreams.Any = true
		} else {
			upstreams.Hosts[u.Host] = true
		}
		if docs, err := url.Parse(u.DocsURL()); err == nil && docs.Host != "" {
			if host, err := hostname.Parse(docs.Host); err == nil {
				upstreams.Docs[host] = u.Host
			}
		}
	}
	for _, r := range c.Routes {
		upstreams.Namespaces[r.Namespace] = r.Upstream
	}
	if own := c.OwnHost(); own != "" {
		upstreams.Hosts[own], upstreams.Modules = true, own
		if slices.Contains(ownHosts(c), own) {
			upstreams.Own = own
		}
		for _, namespace := range c.OwnNamespaces() {
			upstreams.Namespaces[namespace] = own
		}
	}
	return upstreams
}

// handler returns the handler for all requests.
func (a *App) handler() http.Handler {
	c := a.config
	mounts, own := sumDBMounts(a.Ledger, a.gate), process{a, addresses(a.listener.Addr())}
	api := a.api()
	api.Process, api.Tokens = own, a.tokens()
	for _, r := range api.Routes() {
		handle := a.countVerb(r.Handle)
		mounts = append(mounts, proxy.Mount{Method: r.Method, Path: r.Path, Kind: "api", Refresh: r.Refresh, Owner: r.Owner, Handle: handle})
	}
	mounts = append(append(mounts, profiles()), webhookMounts(c, a.webhooks)...)
	return a.watchFront(proxy.New(proxy.Config{
		Registry:       a.Registry,
		Catalog:        a.catalog,
		Documents:      a.documents,
		Listing:        a.listing,
		Offline:        c.Offline,
		Records:        a.Ledger,
		Upstreams:      upstreamsOf(c),
		OtherServices:  a.others,
		Contact:        func() string { return a.gate.Rules().Contact },
		PublicURL:      strings.TrimRight(c.PublicURL, "/"),
		Process:        own,
		Local:          c.IsLocal() && !c.Anonymous.All && (a.auth == nil || len(c.Anonymous.Scopes) > 0),
		Auth:           a.auth,
		Operators:      a.operators,
		Limits:         httpx.Limits{Requests: c.Limits.Requests, Rate: c.Limits.Rate},
		TrustedProxies: c.TrustedProxies,
		Requests:       &a.requests,
		Log:            a.log,
		Metrics:        a.metrics,
		Mounts:         mounts,
	}))
}

// connections returns the maximum number of connected clients: the configured one, or fewer if the store and the downloads would
// otherwise run out of open files. limit is the maximum number of open files of the process, or zero if it is not known.
func connections(c *config.Config, limit uint64) int {
	if limit == 0 {
		return c.Limits.Connections
	}
	others := min(limit, uint64(32+6*(c.Fetch.AtOnce+c.Providers.AtOnce))) // files that are always open, and files for each download
	return int(max(1, min(uint64(c.Limits.Connections), max(limit/4, limit-others))))
}

// CheckOpenFiles returns an error if the limit of open files of this process lowers the number of connections that c configures.
func CheckOpenFiles(c *config.Config) error {
	limit := openFiles()
	if most := connections(c, limit); most < c.Limits.Connections {
		return fmt.Errorf("the limit of open files is %d, which is enough for %d connections; limits.connections is %d",
			limit, most, c.Limits.Connections)
	}
	return nil
}

// process implements [proxy.Process] and [admin.Process].
type process struct {
	app       *App
	addresses map[string]bool // of the listener
}

// HasName reports whether host is an address that the process listens on, or a name in its certificate.
func (p process) HasName(host string) bool {
	if p.addresses[host] {
		return true
	}
	if p.app.tls == nil || strings.ContainsAny(host, "/@?#\\ ") {
		return false
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	return p.app.tls.get().Leaf.VerifyHostname(name) == nil
}

// addresses returns the Host headers with which a client on this machine may reach the listener.
func addresses(listening net.Addr) map[string]bool {
	all := map[string]bool{listening.String(): true}
	if at, err := netip.ParseAddrPort(listening.String()); err == nil && (at.Addr().Unmap().IsLoopback() || at.Addr().IsUnspecified()) {
		all[fmt.Sprintf("localhost:%d", at.Port())] = true
		if at.Addr().IsUnspecified() {
			all[fmt.Sprintf("127.0.0.1:%d", at.Port())], all[fmt.Sprintf("[::1]:%d", at.Port())] = true, true
		}
	}
	return all
}

// Problems returns the problems that keep the process from its work.
func (p process) Problems() []proxy.Problem {
	a := p.app
	if a.draining.Load() {
		return []proxy.Problem{{State: "shutting down"}}
	}
	var list []proxy.Problem
	for _, problem := range []proxy.Problem{
		{State: "nothing new is stored", Err: a.disk.Ready(), Minor: a.config.Offline},
		{State: "no new version is recorded", Err: a.Ledger.Failed(), Minor: a.config.Offline},
		{State: "no client can be identified", Err: a.authReady()},
		{State: "the rules of the policy are not those of the configuration", Err: a.rulesProblem(), Minor: true},
		{State: "the TLS certificate has a problem", Err: a.tls.problem(), Minor: true},
		{State: "a mirror is incomplete", Err: a.mirrors.problem(a.config.Mirror), Minor: true},
		a.git.problem(),
	} {
		if problem.Err != nil {
			list = append(list, problem)
		}
	}
	return list
}

// Home returns the text for a browser that requested the proxy at the URL base. base is empty if the URL is not known.
func (p process) Home(base string) string {
	text := "modproxy, a caching proxy for module registries of Terraform and OpenTofu.\n\n"
	if base == "" {
		return text + "The address of this proxy is not known: set public_url.\n"
	}
	return text + ClientConfig(base, "", false, p.app.config, p.app.auth.Login(time.Now()))
}

const sumDBPath = "/-/sumdb/"

// sumDBMounts returns the routes that serve the ledger as a checksum database of the go command. They include the path
// "supported", which the go command requests from a proxy for a checksum database, and the verifier key.
//
// For a denied version, the lookup is an error. For a deprecated version, the answer has a header with the deprecation.
func sumDBMounts(ledgerLog *ledger.Log, gate *policy.Gate) []proxy.Mount {
	prefix := sumDBPath + ledgerLog.Name()
	server := http.StripPrefix(prefix, sumdb.NewServer(ledgerLog.ServerOps()))
	text := func(s string) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(s)) // the client may have disconnected
			return nil
		}
	}
	return []proxy.Mount{
		{Method: "GET", Path: sumDBPath + "key", Kind: "ledger", Public: true, Handle: text(ledgerLog.VerifierKey() + "\n")},
		{Method: "GET", Path: prefix + "/supported", Kind: "ledger", Public: true, Handle: text("")},
		{Method: "GET", Path: prefix + "/", Kind: "ledger", Public: true, Handle: func(w http.ResponseWriter, r *http.Request) error {
			v, err := mayLookUp(auth.PrincipalOf(r.Context()), strings.TrimPrefix(r.URL.Path, prefix))
			if err == nil && v.Version != "" {
				err = verdictOn(r.Context(), w.Header(), gate, v)
			}
			if err != nil {
				return err
			}
			server.ServeHTTP(w, r)
			return nil
		}},
	}
}

// verdictOn returns the denial of a version, or nil. It adds a header if the version is deprecated.
func verdictOn(ctx context.Context, header http.Header, gate *policy.Gate, v modproxy.Ref) error {
	if err := gate.CheckClient(modproxy.WithDates(ctx), v); err != nil {
		return err
	}
	decided, err := gate.Decisions(ctx, v)
	if d := decided.Deprecation; d != nil {
		header.Set(lock.DeprecationHeader, mime.QEncoding.Encode("utf-8", d.Deprecation()))
	}
	return err
}

// mayLookUp returns an error if p may not read a path of a checksum database. It also returns the version for which the path is a
// lookup, or the zero Ref. The error is the same for records that do not exist and for records outside the scopes of p. Hashes
// and signed tree heads contain no module names, so everyone may read them. Tiles of records contain names. The go command does
// not request them.
func mayLookUp(p auth.Principal, path string) (v modproxy.Ref, err error) {
	everything := p.Kind == auth.Nobody || p.Admin // an unidentified client: no credential is needed
	if !everything && strings.HasPrefix(path, "/tile/") && strings.Contains(path, "/data/") {
		return v, fs.ErrNotExist
	}
	escaped, ok := strings.CutPrefix(path, "/lookup/")
	if !ok {
		return v, nil
	}
	// The rest of the path is parsed as in sumdb.Server.
	path, version, _ := strings.Cut(escaped, "@")
	path, badPath := module.UnescapePath(path)
	version, badVersion := module.UnescapeVersion(version)
	v, bad := ledger.ParseKey(module.Version{Path: path, Version: version})
	if badPath != nil || badVersion != nil || bad != nil {
		v = modproxy.Ref{} // sumdb.Server returns the error
	}
	if !everything && !p.MayRead(v.Address) {
		return modproxy.Ref{}, fs.ErrNotExist
	}
	return v, nil
}
