package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/fetch/web"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/nested"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/rewrite"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/tfconfig"
	"github.com/modproxy/modproxy/upstream"
)

// open makes the layers. Read from the end it is the path of a request.
func (a *App) open(ctx context.Context, listening net.Addr) (err error) {
	c, log := a.config, a.log
	if err := a.openStore(ctx, disk.Options{}); err != nil {
		return err
	}
	a.Store.Observe = a.observeStore
	locked := a.disk.ReadOnly()
	if locked != nil {
		log.Warn("data_read_only", errorField(locked))
	}
	if err := a.openLedger(ctx); err != nil {
		return err
	}
	a.Store.Kinds[cache.PackageKind] = keeperOf(a.Ledger)
	a.gate = &policy.Gate{Ledger: a.Ledger}
	scratch := a.scratch()
	if locked == nil {
		if err := emptyScratch(scratch); err != nil {
			return err
		}
	}
	var reg modproxy.Registry      // nil, and nobody is asked, when offline
	var describes modproxy.Catalog // likewise
	var dates history.Dates        // likewise
	var pinned *ledger.Registry
	var sources *nested.Sources
	if !c.Offline {
		if err = a.openEgress(listening); err != nil {
			return err
		}
		if a.noGit = git.Installed(context.WithoutCancel(ctx)); a.noGit != nil {
			log.Warn("git_missing", errorField(a.noGit))
		}
		table := a.newTable(scratch)
		client, err := a.newUpstream(table)
		if err != nil {
			return err
		}
		// A version is recorded before its package is kept. A record without a package does no harm: the next fetch
		// must match it. The other way round, what is refused for not being what is recorded would fill the disk.
		router := &upstream.Router{Default: client, Reserve: a.gate}
		a.others = router
		sources = nested.NewSources(router, table)
		pinned = &ledger.Registry{Next: sources, Ledger: a.Ledger, Signers: c.Providers.Keys, Observe: a.observeLedger}
		describes = router
		a.recheck = ledger.Recheck{Registry: pinned, Gate: a.gate, Every: c.Ledger.Recheck, FetchTimeout: c.Fetch.Timeout}
		if locked != nil {
			a.recheck = ledger.Recheck{}
		} else { // else they could not be recorded, and would be asked for again and again
			dates = router
		}
	}
	if err := a.openGate(ctx, dates); err != nil {
		return err
	}
	if pinned != nil {
		reg = &history.Registry{Next: pinned, FirstSeen: a.firstSeen}
		if locked != nil {
			reg = readOnly{reg, locked}
		}
	}
	a.Cache = &cache.Registry{
		Next: reg, Store: a.Store, Ledger: a.Ledger, Gate: a.gate,
		Fresh: c.Cache.Fresh, MaxStale: c.Cache.MaxStale, Missing: c.Cache.Missing, MaxVersions: int64(c.Cache.MaxVersions),
		Fetches: c.Fetch.AtOnce, FetchTimeout: c.Fetch.Timeout, Zips: c.Providers.AtOnce, ZipTimeout: c.Providers.Timeout,
		Observe: a.observe,
	}
	a.recheck.Turns = a.Cache
	a.Store.Last = a.Cache.Withdrawn
	a.metrics.MeasureStorage(a.Store, int64(c.Cache.MaxSize))
	a.Store.Start()
	layer, at := modproxy.Registry(a.Cache), ""
	if c.Rewrite.Nested {
		url := strings.TrimRight(c.PublicURL, "/")
		a.nested = &nested.Registry{
			Next: a.Cache, Ledger: a.Ledger, Reader: a.reader, Sources: sources, URL: url, Scratch: scratch, Limits: anyLimits, Observer: a,
		}
		layer, at = a.nested, nested.Base(url)
	}
	a.Registry = &policy.Registry{Next: layer, Gate: a.gate, ListDenied: true, Observe: a.observePolicy}
	a.counts = history.NewDownloads(a.Store.Records, a.observeDownloads)
	a.openCatalog(layer, describes)
	if a.missing != nil {
		a.Registry = &observe.Registry{Next: a.Registry, Observers: []observe.Observer{history.NewMisses(a.missing)}}
	}
	if c.Cache.ReadAhead && reg != nil && locked == nil {
		a.prefetcher = a.newPrefetcher(layer)
		a.Registry = &observe.Registry{Next: a.Registry, Observers: []observe.Observer{a.prefetcher}}
	}
	if locked == nil { // else no count could be recorded
		a.Registry = &observe.Registry{Next: a.Registry, Observers: []observe.Observer{a.counts}}
	}
	a.Registry = &rewrite.Registry{Next: a.Registry, Base: at}
	return a.newAuth(ctx)
}

// scratch returns the directory for what is being fetched, packed or verified.
func (a *App) scratch() string { return Absolute(filepath.Join(a.config.Data, "scratch")) }

// limits returns those of one package.
func (a *App) limits() pack.Limits {
	f := a.config.Fetch
	return pack.Limits{Entries: f.MaxFiles, Bytes: int64(f.MaxUnpacked), Packed: int64(f.MaxUnpacked), StrictNames: f.StrictNames}
}

// newUpstream returns the client that asks registries.
func (a *App) newUpstream(table *fetch.Table) (*upstream.Client, error) {
	c := a.config
	hosts := map[string]upstream.Host{}
	anyOther := config.Upstream{Host: config.TofuHost} // which "*" may stand for
	for _, u := range append([]config.Upstream{anyOther}, c.Upstreams...) {
		if u.Host != "*" {
			hosts[u.Host] = upstream.Host{Modules: u.Modules, Providers: u.Providers, Docs: u.DocsURL(), Token: u.Token, Rate: u.Rate}
		}
	}
	providers := upstream.Providers{
		Scratch: a.scratch(), MaxReceived: int64(c.Providers.MaxReceived), MaxUnpacked: int64(c.Providers.MaxUnpacked), Unsigned: c.Providers.Unsigned,
		OtherNames: c.Providers.OtherNames,
	}
	return upstream.New(upstream.Config{Egress: a.egress, Hosts: hosts, Fetch: table, Providers: providers})
}

// newTable returns what fetches packages, with a getter for each kind of location.
func (a *App) newTable(scratch string) *fetch.Table {
	c := a.config
	credentials := newCredentials(c)
	limits := a.limits()
	archives := &web.Getter{Egress: a.egress, Credentials: credentials, Scratch: scratch, MaxReceived: int64(c.Fetch.MaxReceived)}
	repositories := &git.Getter{
		Dir: scratch, Network: a.egress, CAFile: c.Egress.CAFile, Credentials: credentials,
		Limits: git.Limits{Time: c.Fetch.Timeout, CPU: c.Fetch.MaxCPU, Received: archives.MaxReceived, Entries: limits.Entries, Content: limits.Bytes},
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

// openEgress makes what makes every connection from this process, but none to listening: itself, or nil.
func (a *App) openEgress(listening net.Addr) (err error) {
	c, own := a.config, netip.AddrPort{}
	if tcp, ok := listening.(*net.TCPAddr); ok {
		own = tcp.AddrPort()
	}
	a.egress, err = egress.New(egress.Config{
		Allow: c.Egress.Allow, Ports: c.Egress.Ports, ProxyNames: c.Egress.ProxyNames, CAFile: c.Egress.CAFile,
		NoHedging: !c.Egress.Hedging, UserAgent: "modproxy/" + a.options.Version, Listening: []netip.AddrPort{own},
	})
	if err != nil {
		err = config.Error{fmt.Errorf("egress: %w", err)}
	}
	return err
}

// emptyScratch makes the directory in which packages are fetched and packed, and removes what a process that was
// killed left in it. A directory stays: on a full disk there may be no room for another.
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

// openStore opens what is kept; for reading, on a file system that is read-only.
func (a *App) openStore(ctx context.Context, o disk.Options) (err error) {
	c := a.config
	a.disk, err = disk.OpenWith(ctx, c.Data, o)
	if errors.Is(err, syscall.EROFS) {
		o.ReadOnly = true
		a.disk, err = disk.OpenWith(ctx, c.Data, o)
	}
	if err != nil {
		return err
	}
	pinned := pins(c.Cache.Pinned)
	if c.Offline { // nothing would bring back what was evicted
		pinned = pins{auth.Everything}
	}
	a.Store = &store.Store{
		Records: a.disk.Records(), Blobs: a.disk.Blobs(), Aside: a.disk,
		Kinds: map[store.Kind]store.Keeper{
			cache.VersionsKind: nil, cache.DetailsKind: nil, cache.HistoryKind: nil, cache.TextKind: nil, cache.NumbersKind: nil,
			cache.PackageKind: keeperOf(nil), history.FirstSeenKind: nil,
			history.PendingKind: nil, history.MissingKind: nil, tfconfig.ConfigurationKind: nil, tfconfig.DescriptionKind: nil, history.DownloadsKind: nil, history.ProgramsKind: nil,
		},
		Pins: pinned, MaxSize: int64(c.Cache.MaxSize), Memory: int64(c.Cache.Memory),
	}
	a.reader = &tfconfig.Reader{Store: a.Store, MaxStored: int64(c.Cache.MaxVersions)}
	return nil
}

// openLedger opens the ledger. It has had records of what is kept: to go on with none would unpin every version.
func (a *App) openLedger(ctx context.Context) (err error) {
	dir := a.config.LedgerDir()
	a.Ledger, err = ledger.Open(dir)
	if errors.Is(err, syscall.EROFS) {
		a.Ledger, err = ledger.OpenReadOnly(dir)
	}
	if err != nil || a.Ledger.HasRecords() {
		return err
	}
	for _, err := range a.Store.Records.List(ctx, cache.PackageKind, "") {
		if err == nil || errors.Is(err, store.ErrDamaged) {
			err = hint.With(fmt.Errorf("%s: %w", dir, admin.ErrNoLedger), admin.NoLedgerHints...)
		}
		return err
	}
	return nil
}

// pins keep the packages of modules from being evicted.
type pins auth.Scopes

// Pinned implements [store.Pins].
func (p pins) Pinned(ref store.Ref) bool {
	v, ok := cache.VersionOf(ref)
	return ok && len(p) > 0 && auth.Scopes(p).Covers(v.Address)
}

// anyLimits are far above those of fetching, which may have been lowered since something was fetched.
var anyLimits = pack.Limits{Entries: 10_000_000, Bytes: 1 << 42, Packed: 1 << 42}

// keeperOf returns what verifies and rebuilds the records of packages. A nil ledger says nothing about them.
func keeperOf(book *ledger.Log) *cache.Keeper {
	k := &cache.Keeper{Sum: func(r io.Reader) (modproxy.Sum, error) { return pack.Verify(r, anyLimits) }}
	if book != nil {
		k.Ledger = book
	}
	return k
}

// readOnly fetches nothing: in a data directory that is read-only it could not be recorded, and be another next time.
type readOnly struct {
	Next modproxy.Registry
	why  error
}

// Versions returns Next's answer.
func (r readOnly) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns [modproxy.NoSpace].
func (r readOnly) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{}, &modproxy.NoSpace{Err: r.why}
}

// Package returns [modproxy.NoSpace].
func (r readOnly) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return nil, &modproxy.NoSpace{Err: r.why}
}

// newAuth puts the layer on top that answers clients only what they may read, if they have to show a token.
func (a *App) newAuth(ctx context.Context) error {
	c := a.config
	tokens, err := auth.OpenTokens(c.TokensFile())
	clients := &auth.Authenticator{Tokens: tokens, Anonymous: c.Anonymous.Scopes, Open: c.IsOpen}
	switch {
	case err == nil && !c.RequiresToken():
		a.operators = clients
		return nil
	case !c.RequiresToken(): // clients need none
		a.log.Warn("tokens_failed", errorField(err))
		return nil
	case err != nil:
		return hint.With(err, "put the backup back; without the file there are no tokens, and none is good")
	}
	if err := auth.MakeDir(filepath.Dir(c.TokensFile())); err != nil {
		return err
	}
	paths := auth.SignerConfig{Life: c.Auth.SignedPaths, Tokens: tokens}
	if len(c.Auth.Issuers) > 0 {
		verifier, err := a.newVerifier(a.observeIssuer)
		if err != nil {
			return err
		}
		clients.JWT, paths.Rules = verifier, verifier.Rules()
		verifier.Login(time.Now()) // asks for it
		for _, issuer := range c.Auth.Issuers {
			for _, group := range issuer.Groups {
				paths.Groups = append(paths.Groups, group.Name)
			}
		}
	}
	if clients.Signer, err = auth.OpenSigner(ctx, c.KeyFile(), paths); err != nil {
		return hint.With(err, "without the file modproxy makes another; then paths that were signed before are not good")
	}
	a.auth = clients
	listOutside := func() bool { return a.gate.Rules().ListDenied && !c.Offline } // offline, a list without a choice is recorded
	a.Registry = &auth.Registry{Next: a.Registry, Open: c.IsOpen, ListOutside: listOutside,
		Contact: func() string { return a.gate.Rules().Contact }}
	a.listing, a.catalog = &auth.Registry{Next: a.listing, Open: c.IsOpen}, &auth.Catalog{Next: a.catalog, Open: c.IsOpen}
	return nil
}

// authReady returns what keeps the proxy from letting clients in.
func (a *App) authReady() error {
	if a.auth == nil {
		return nil
	}
	return cmp.Or(a.auth.Tokens.Check(), a.auth.Signer.Check())
}

// NobodyHasToken reports whether clients need a token, none was made, and no issuer makes any.
func (a *App) NobodyHasToken() bool {
	if a.auth == nil || a.auth.JWT != nil {
		return false
	}
	list, _ := a.auth.Tokens.List() // without the list, nobody is let in
	return !slices.ContainsFunc(list, func(t auth.Token) bool { return t.Live(time.Now()) })
}
