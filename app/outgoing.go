package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/fetch/oci"
	"github.com/modproxy/modproxy/fetch/web"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/upstream"
	"github.com/modproxy/modproxy/upstream/tags"
)

// outgoing has the clients of registries and of their packages.
type outgoing struct {
	egress *egress.Client
	table  *fetch.Table
	client *upstream.Client // of all registries
	own    *tags.Registry   // nil without own modules
	router *upstream.Router
	git    *gitProgram
}

// openOutgoing opens the clients of registries. The gate of a has no first-seen times yet, because their dates come from the
// router.
func (a *App) openOutgoing(ctx context.Context, listening net.Addr) (*outgoing, error) {
	network, err := a.newEgress(listening)
	if err != nil {
		return nil, err
	}
	a.closers.add(func(context.Context) error { return network.Close() })
	program := newGitProgram(context.WithoutCancel(ctx), git.Installed)
	if program.err != nil {
		logEvent(a.log, "git_missing", program.err)
	}
	table := a.newTable(network)
	client, err := a.newUpstream(network, table)
	if err != nil {
		return nil, err
	}
	router := &upstream.Router{Default: client, Reserve: a.gate}
	var own *tags.Registry
	if host := a.config.OwnHost(); host != "" {
		own, err = a.newModules(table)
		if err != nil {
			return nil, err
		}
		router.Hosts = map[string]upstream.Registry{host: own}
	}
	return &outgoing{network, table, client, own, router, program}, nil
}

// origin returns the server that lists the versions of an address: its registry, or the forge of an own module.
func (o *outgoing) origin(a modproxy.Address) string {
	if o.own == nil {
		return a.Host
	}
	return o.own.Origin(a)
}

// OpenUpstreams returns the client that makes the connections of a proxy, and the client of its registries, without opening its data.
func OpenUpstreams(c *config.Config, o Options) (*egress.Client, *upstream.Client, error) {
	p := &inside(c, o).parts
	network, err := p.newEgress(nil)
	if err != nil {
		return nil, nil, err
	}
	client, err := p.newUpstream(network, p.newTable(network))
	return network, client, err
}

// OpenModules returns the registry of own modules of a proxy, without opening its data. The caller must call done.
func OpenModules(c *config.Config, o Options) (modules *tags.Registry, done func() error, err error) {
	dir, err := os.MkdirTemp("", "modproxy-modules-")
	if err != nil {
		return nil, nil, err
	}
	apart := *c
	apart.Data = dir // the data directory may belong to another user
	p := &inside(&apart, o).parts
	network, err := p.newEgress(nil)
	if err == nil {
		err = os.Mkdir(p.scratch(), 0o700)
	}
	if err == nil {
		modules, err = p.newModules(p.newTable(network))
	}
	done = func() error {
		if network == nil {
			return os.RemoveAll(dir)
		}
		return errors.Join(network.Close(), os.RemoveAll(dir))
	}
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return modules, done, nil
}

// datesOf returns the publication dates of registries. On read-only data it returns nil: dates could not be recorded, and would
// be requested again and again.
func (a *App) datesOf(out *outgoing) history.Dates {
	if a.ReadOnly() != nil {
		return nil
	}
	return out.router
}

// newUpstream returns the client that asks registries.
func (p *parts) newUpstream(network *egress.Client, table *fetch.Table) (*upstream.Client, error) {
	c := p.config
	hosts := map[string]upstream.Host{}
	anyOther := config.Upstream{Host: config.TofuHost} // "*" may mean this host
	for _, u := range append([]config.Upstream{anyOther}, c.Upstreams...) {
		if u.Host != "*" {
			hosts[u.Host] = upstream.Host{Modules: u.Modules, Providers: u.Providers, Docs: u.DocsURL(), Token: u.Token, Rate: u.Rate}
		}
	}
	providers := upstream.Providers{
		Scratch: p.scratch(), MaxReceived: int64(c.Providers.MaxReceived), MaxUnpacked: int64(c.Providers.MaxUnpacked), Unsigned: c.Providers.Unsigned,
		OtherNames: c.Providers.OtherNames,
	}
	return upstream.New(upstream.Config{Egress: network, Hosts: hosts, Fetch: table, Providers: providers})
}

// newModules returns the registry of own modules.
func (p *parts) newModules(table *fetch.Table) (*tags.Registry, error) {
	return tags.New(tags.Config{Host: p.config.OwnHost(), Modules: p.config.Mappings(), Fetch: table})
}

// newTable returns the table of getters, with a getter for each kind of location. Offline, network is nil and only the names of the
// getters are used.
func (p *parts) newTable(network *egress.Client) *fetch.Table {
	c, scratch := p.config, p.scratch()
	credentials := newCredentials(c)
	limits := p.limits()
	archives := &web.Getter{Egress: network, Credentials: credentials, Scratch: scratch, MaxReceived: int64(c.Fetch.MaxReceived)}
	repositories := &git.Getter{
		Dir: scratch, Network: network, CAFile: c.Egress.CAFile, Credentials: credentials,
		Limits: git.Limits{Time: c.Fetch.Timeout, CPU: c.Fetch.MaxCPU, Received: archives.MaxReceived, Entries: limits.Entries, Content: limits.Bytes},
	}
	registries := &oci.Getter{Egress: network, Credentials: credentials, Scratch: scratch, MaxReceived: archives.MaxReceived}
	return &fetch.Table{
		Getters: map[string]fetch.Getter{"git": repositories, "http": archives, "https": archives, "oci": registries},
		Scratch: scratch, Limits: limits, Mirrors: c.Mirrors(),
	}
}

// newCredentials returns the credentials for the hosts of packages.
func newCredentials(c *config.Config) (all fetch.Credentials) {
	for _, set := range c.Credentials {
		shown := fetch.Credential{Host: set.Host, Username: set.Username, Password: set.Password, TokenHost: set.TokenHost}
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

// newEgress returns the client that makes all connections of this process. It refuses connections to listening, the address of
// this process. listening may be nil.
func (p *parts) newEgress(listening net.Addr) (*egress.Client, error) {
	c, own := p.config, netip.AddrPort{}
	if tcp, ok := listening.(*net.TCPAddr); ok {
		own = tcp.AddrPort()
	}
	client, err := egress.New(egress.Config{
		Allow: c.Egress.Allow, Ports: c.Egress.Ports, ProxyNames: c.Egress.ProxyNames, CAFile: c.Egress.CAFile,
		NoHedging: !c.Egress.Hedging, UserAgent: "modproxy/" + p.options.Version, Listening: []netip.AddrPort{own},
	})
	if err != nil {
		return nil, config.Error{fmt.Errorf("egress: %w", err)}
	}
	return client, nil
}
