package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/fetch/web"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/rewrite"
	"github.com/modproxy/modproxy/upstream"
)

// App is the layers of registries, and what they stand on.
type App struct {
	Registry  modproxy.Registry
	Cache     *cache.Registry
	Store     *disk.Store
	Ledger    *ledger.Log
	recheck   ledger.Recheck      // does nothing when offline
	provider  proxy.Providers     // nil when offline
	auth      *auth.Authenticator // nil when nobody is asked
	operators *auth.Authenticator // of the API, when nobody else is asked
	egress    *egress.Client      // nil when offline and without issuers
	tls       *certificate        // nil without TLS
	metrics   *proxy.Metrics
	log       *zap.Logger
	draining  atomic.Bool

	config   *config.Config
	options  Options
	listener net.Listener
	url      string
	flush    func() // of the log

	noGit error // why nothing can be fetched from git
}

// Open opens what c describes without listening for clients. It does not log.
func Open(ctx context.Context, c *config.Config, o Options) (*App, error) {
	return open(ctx, c, nil, zap.NewNop(), o)
}

// open makes the layers. Read from the end it is the path of a request.
func open(ctx context.Context, c *config.Config, listening net.Addr, log *zap.Logger, o Options) (_ *App, err error) {
	s := &App{metrics: proxy.NewMetrics(), log: log, flush: func() {}, options: o, config: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Store, err = openStore(c.Data); err != nil {
		return nil, err
	}
	locked := s.Store.ReadOnly()
	if locked != nil {
		log.Warn("data_read_only", zap.Error(locked))
	}
	if n := s.Store.Mended(); n > 0 {
		log.Warn("index_mended", zap.Int("records", n))
	}
	if s.Ledger, err = openLedger(c, s.Store); err != nil {
		return nil, err
	}
	var reg modproxy.Registry // nil, and nobody is asked, when offline
	scratch := Absolute(filepath.Join(c.Data, "scratch"))
	if locked == nil {
		err = emptyScratch(scratch)
	}
	if err != nil {
		return nil, err
	}
	if !c.Offline {
		if s.noGit = git.Installed(context.WithoutCancel(ctx)); s.noGit != nil {
			log.Warn("git_missing", zap.Error(s.noGit))
		}
		client, err := s.newUpstream(ctx, c, listening, scratch)
		if err != nil {
			return nil, err
		}
		// A version is recorded before its package is kept. A record without a
		// package does no harm: the next fetch must match it. The other way round,
		// what is refused because it is not what is recorded would fill the disk.
		pinned := &ledger.Registry{Next: &upstream.Router{Default: client}, Ledger: s.Ledger, Observe: s.observeLedger}
		s.provider = client.Provider
		reg = pinned
		s.recheck = ledger.Recheck{Registry: pinned, Every: c.Ledger.Recheck, FetchTimeout: c.Fetch.Timeout}
		if locked != nil {
			reg, s.recheck = &readOnly{reg, locked}, ledger.Recheck{}
		}
	}
	s.Cache = &cache.Registry{
		Next: reg, Index: s.heldIndex(), Blobs: s.Store, Uses: s.Store, References: s.Store.References, MaxSize: int64(c.Cache.MaxSize),
		MaxVersions: int64(c.Cache.MaxVersions),
		Fresh:       c.Cache.Fresh, MaxStale: c.Cache.MaxStale, Missing: c.Cache.Missing,
		Memory: int64(c.Cache.Memory), Fetches: c.Fetch.AtOnce, FetchTimeout: c.Fetch.Timeout,
		Observe: s.observe,
	}
	s.recheck.Turns = s.Cache
	stayPut(s.Cache, s.Store, c)
	s.metrics.Storage(s.Cache.Usage, int64(c.Cache.MaxSize))
	s.Cache.Start()
	s.Registry = &rewrite.Registry{Next: s.Cache}
	return s, s.newAuth(ctx, c, listening)
}

// newUpstream makes the client that asks registries and fetches packages.
func (s *App) newUpstream(ctx context.Context, c *config.Config, listening net.Addr, scratch string) (*upstream.Client, error) {
	var err error
	if s.egress, err = s.newEgress(c, listening); err != nil {
		return nil, err
	}
	hosts := map[string]upstream.Host{}
	for _, u := range c.Upstreams {
		if u.Host != "*" {
			hosts[u.Host] = upstream.Host{Modules: u.Modules, Providers: u.Providers, Token: u.Token, Rate: u.Rate}
		}
	}
	return upstream.New(upstream.Config{Egress: s.egress, Hosts: hosts, Fetch: s.newFetch(c, scratch), Missing: c.Cache.Missing})
}

// newFetch makes what fetches packages, with a getter for each kind of location.
func (s *App) newFetch(c *config.Config, scratch string) *fetch.Table {
	credentials := newCredentials(c)
	limits := pack.Limits{
		Entries: c.Fetch.MaxFiles, Bytes: int64(c.Fetch.MaxUnpacked), Packed: int64(c.Fetch.MaxUnpacked), StrictNames: c.Fetch.StrictNames,
	}
	archives := &web.Getter{Egress: s.egress, Credentials: credentials, Scratch: scratch, MaxReceived: int64(c.Fetch.MaxReceived)}
	repositories := &git.Getter{
		Dir: scratch, Network: git.Egress{Client: s.egress}, CAFile: c.Egress.CAFile, Credentials: credentials,
		Limits: git.Limits{
			Time: c.Fetch.Timeout, Received: int64(c.Fetch.MaxReceived), Entries: limits.Entries, Content: limits.Bytes,
		},
	}
	return &fetch.Table{
		Getters: map[string]fetch.Getter{"git": repositories, "http": archives, "https": archives},
		Scratch: scratch, Limits: limits,
	}
}

// newCredentials makes what is shown to those that packages are fetched from.
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

// newEgress makes every connection that leaves this process, but none back to it.
func (s *App) newEgress(c *config.Config, listening net.Addr) (*egress.Client, error) {
	own := netip.AddrPort{}
	if tcp, ok := listening.(*net.TCPAddr); ok {
		own = tcp.AddrPort()
	}
	client, err := egress.New(egress.Config{
		Allow: c.Egress.Allow, Ports: c.Egress.Ports, ProxyNames: c.Egress.ProxyNames, CAFile: c.Egress.CAFile,
		UserAgent: "modproxy/" + s.options.Version,
		Listening: []netip.AddrPort{own},
	})
	if err != nil {
		return nil, config.Error{fmt.Errorf("egress: %w", err)}
	}
	return client, nil
}

// emptyScratch makes the directory in which packages are fetched and packed, and
// removes what a process that was killed left in it. The data directory is open. A
// directory stays: on a full disk there may be no room for another.
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

// Absolute is for programs that run in another directory than this one.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// ready is what hinders the proxy from doing its work.
func (s *App) ready() []proxy.Hindrance {
	if s.draining.Load() {
		return []proxy.Hindrance{{State: "shutting down"}}
	}
	var list []proxy.Hindrance
	for _, h := range []proxy.Hindrance{
		{State: "nothing more is kept", Err: s.Store.Ready()},
		{State: "nothing more is recorded", Err: s.Ledger.Failed()},
		{State: "nobody is let in", Err: s.authReady()},
	} {
		if h.Err != nil {
			list = append(list, h)
		}
	}
	if s.noGit != nil {
		list = append(list, proxy.Hindrance{State: "nothing is fetched from git repositories", Err: s.noGit, Mild: true})
	}
	return list
}

// drain waits for the fetches that run, until ctx ends.
func (s *App) drain(ctx context.Context) {
	left := s.Cache.Fetching()
	if err := s.Cache.Close(ctx); err != nil {
		s.log.Warn("fetches_cut", zap.Strings("modules", slices.Sorted(maps.Keys(left))), zap.Error(err))
	}
}

// Close releases what the stack stands on. What is fetching must have ended.
func (s *App) Close() error {
	var errs []error
	if s.Cache != nil {
		gone, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		errs = append(errs, s.Cache.Close(gone))
	}
	if s.egress != nil {
		errs = append(errs, s.egress.Close())
	}
	if s.Ledger != nil {
		errs = append(errs, s.Ledger.Close())
	}
	if s.Store != nil {
		errs = append(errs, s.Store.Close())
	}
	if s.listener != nil {
		s.listener.Close() // which the server may have done
	}
	s.flush()
	return errors.Join(errs...)
}
