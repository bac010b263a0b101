package doctor

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
)

// proxyVariables examines the proxy variables of this process. modproxy and clients have the same ones if they have the same environment.
func (e *examination) proxyVariables(ctx context.Context) (found []Finding) {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"} {
		lower := strings.ToLower(name)
		if upper, other := os.Getenv(name), os.Getenv(lower); upper != "" && other != "" && upper != other {
			found = append(found, finding("proxy_conflict", name, "%s has another value, and some programs read only one of them", lower))
		}
	}
	asked := map[string]bool{}
	for _, use := range e.proxyUses() {
		if asked[use.proxy.Host] {
			continue
		}
		asked[use.proxy.Host] = true
		if err := e.proxyFailed(ctx, use.proxy); err != nil {
			found = append(found, finding("proxy_unreachable", use.proxy.Redacted(), "requests to %s go through it, and: %v", use.host, err))
		} else if ip := inward(ctx, use.host); ip.IsValid() {
			found = append(found, finding("no_proxy", use.host, "it is the internal address %v, and its requests go through the proxy %s", ip, use.proxy.Host))
		}
	}
	return found
}

// proxyUse is a host to which requests go through a proxy.
type proxyUse struct {
	host  string
	proxy *url.URL
}

// proxyUses returns the hosts to which requests go through a proxy: upstreams, for modproxy, and modproxy, for its clients.
func (e *examination) proxyUses() (all []proxyUse) {
	add := func(u, proxy *url.URL) {
		if proxy != nil {
			all = append(all, proxyUse{u.Hostname(), proxy})
		}
	}
	for _, base := range e.bases() {
		u, err := url.Parse(base)
		if err != nil {
			continue
		}
		if p, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil {
			add(u, p)
		}
	}
	if e.Config == nil || e.Config.Offline || !e.Config.IsSound("upstreams", "egress", "offline") {
		return all
	}
	if network, _ := e.network(); network != nil {
		for _, u := range e.Config.Upstreams {
			if u.Host != "*" {
				add(urlOf(u), network.Proxy(urlOf(u)))
			}
		}
	}
	return all
}

// proxyFailed connects to a proxy and returns the error of the connection, or nil.
func (e *examination) proxyFailed(ctx context.Context, p *url.URL) error {
	return once(&e.proxyAt, p.Host, func() error {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", egress.ProxyAddress(p))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// inward returns the private address of a host. It returns the zero Addr for a host with a public address, for this machine, and for a host
// whose name has no address.
func inward(ctx context.Context, host string) netip.Addr {
	if hostname.IsLocal(host) {
		return netip.Addr{}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(all) == 0 || !all[0].Unmap().IsPrivate() {
		return netip.Addr{}
	}
	return all[0].Unmap()
}
