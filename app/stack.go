package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/fetch/web"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/rewrite"
	"github.com/modproxy/modproxy/upstream"
)

// open makes the layers. Read from the end it is the path of a request.
func (a *App) open(ctx context.Context, listening net.Addr) (err error) {
	c, log := a.config, a.log
	if err := a.openStore(); err != nil {
		return err
	}
	a.Store.Observe = a.observeStore
	locked := a.disk.ReadOnly()
	if locked != nil {
		log.Warn("data_read_only", zap.Error(locked))
	}
	if err := a.openLedger(ctx); err != nil {
		return err
	}
	a.Store.Kinds[cache.PackageKind] = keeperOf(a.Ledger)
	scratch := Absolute(filepath.Join(c.Data, "scratch"))
	if locked == nil {
		if err := emptyScratch(scratch); err != nil {
			return err
		}
	}
	var reg modproxy.Registry // nil, and nobody is asked, when offline
	if !c.Offline || len(c.Auth.Issuers) > 0 {
		if a.egress, err = newEgress(c, listening, a.options.Version); err != nil {
			return err
		}
	}
	if !c.Offline {
		if a.noGit = git.Installed(context.WithoutCancel(ctx)); a.noGit != nil {
			log.Warn("git_missing", zap.Error(a.noGit))
		}
		client, err := a.newUpstream(scratch)
		if err != nil {
			return err
		}
		// A version is recorded before its package is kept. A record without a package does no harm: the next
		// fetch must match it. The other way round, what is refused because it is not what is recorded would
		// fill the disk.
		pinned := &ledger.Registry{Next: &upstream.Router{Default: client}, Ledger: a.Ledger, Observe: a.observeLedger}
		a.providers = client
		reg = pinned
		a.recheck = ledger.Recheck{Registry: pinned, Every: c.Ledger.Recheck, FetchTimeout: c.Fetch.Timeout}
		if locked != nil {
			reg, a.recheck = &readOnly{reg, locked}, ledger.Recheck{}
		}
	}
	a.Cache = &cache.Registry{
		Next: reg, Store: a.Store, Ledger: a.Ledger,
		Fresh: c.Cache.Fresh, MaxStale: c.Cache.MaxStale, Missing: c.Cache.Missing, MaxVersions: int64(c.Cache.MaxVersions),
		Fetches: c.Fetch.AtOnce, FetchTimeout: c.Fetch.Timeout, Observe: a.observe,
	}
	a.recheck.Turns = a.Cache
	a.metrics.MeasureStorage(a.Store, int64(c.Cache.MaxSize))
	a.Store.Start()
	a.Registry = &rewrite.Registry{Next: a.Cache}
	return a.newAuth(ctx)
}

// newUpstream returns the client that asks registries and fetches packages.
func (a *App) newUpstream(scratch string) (*upstream.Client, error) {
	c := a.config
	hosts := map[string]upstream.Host{}
	for _, u := range c.Upstreams {
		if u.Host != "*" {
			hosts[u.Host] = upstream.Host{Modules: u.Modules, Providers: u.Providers, Token: u.Token, Rate: u.Rate}
		}
	}
	return upstream.New(upstream.Config{Egress: a.egress, Hosts: hosts, Fetch: a.newFetch(c, scratch)})
}

// newFetch returns what fetches packages, with a getter for each kind of location.
func (a *App) newFetch(c *config.Config, scratch string) *fetch.Table {
	credentials := newCredentials(c)
	limits := pack.Limits{
		Entries: c.Fetch.MaxFiles, Bytes: int64(c.Fetch.MaxUnpacked), Packed: int64(c.Fetch.MaxUnpacked), StrictNames: c.Fetch.StrictNames,
	}
	archives := &web.Getter{Egress: a.egress, Credentials: credentials, Scratch: scratch, MaxReceived: int64(c.Fetch.MaxReceived)}
	repositories := &git.Getter{
		Dir: scratch, Network: git.Egress{Client: a.egress}, CAFile: c.Egress.CAFile, Credentials: credentials,
		Limits: git.Limits{Time: c.Fetch.Timeout, Received: archives.MaxReceived, Entries: limits.Entries, Content: limits.Bytes},
	}
	return &fetch.Table{
		Getters: map[string]fetch.Getter{"git": repositories, "http": archives, "https": archives},
		Scratch: scratch, Limits: limits,
	}
}

// newCredentials returns the credentials for the hosts that packages come from.
func newCredentials(c *config.Config) (all fetch.Credentials) {
	for _, set := range c.Credentials {
		shown := fetch.Credential{Host: set.Host, Username: set.Username, Password: set.Password}
		if set.SSHKeyFile != "" {
			shown.SSHKeyFile, shown.KnownHostsFile = Absolute(set.SSHKeyFile), Absolute(set.KnownHostsFile)
		}
		if len(set.Scopes) > 0 {
			shown.Scope = set.Scopes
		}
		all = append(all, shown)
	}
	return all
}

// newEgress returns what makes every connection that leaves this process, but none to listening, which is this
// proxy. That is nil if it does not listen.
func newEgress(c *config.Config, listening net.Addr, version string) (*egress.Client, error) {
	own := netip.AddrPort{}
	if tcp, ok := listening.(*net.TCPAddr); ok {
		own = tcp.AddrPort()
	}
	client, err := egress.New(egress.Config{
		Allow: c.Egress.Allow, Ports: c.Egress.Ports, ProxyNames: c.Egress.ProxyNames, CAFile: c.Egress.CAFile,
		UserAgent: "modproxy/" + version, Listening: []netip.AddrPort{own},
	})
	if err != nil {
		return nil, config.Error{fmt.Errorf("egress: %w", err)}
	}
	return client, nil
}

// emptyScratch makes the directory in which packages are fetched and packed, and removes what a process that
// was killed left in it. The data directory is open. A directory stays: on a full disk there may be no room for
// another.
func emptyScratch(scratch string) error {
	if info, err := os.Lstat(scratch); err != nil || !info.IsDir() {
		return errors.Join(os.RemoveAll(scratch), os.Mkdir(scratch, 0o700))
	}
	root, err := os.OpenRoot(filepath.Dir(scratch)) // nothing beyond it is removed
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := os.ReadDir(scratch)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := root.RemoveAll(filepath.Join(filepath.Base(scratch), entry.Name())); err != nil {
			return err
		}
	}
	return os.Chmod(scratch, 0o700)
}

// Absolute returns path for a program that runs in another directory.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
