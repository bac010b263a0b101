package app

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/modproxy/modproxy/proxy"
)

// process is what the proxy asks this process.
type process struct {
	app       *App
	addresses map[string]bool // where it listens
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

// addresses returns the hosts by which a client on this machine may reach what listens.
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

// Problems returns what keeps the process from its work.
func (p process) Problems() []proxy.Problem {
	a := p.app
	if a.draining.Load() {
		return []proxy.Problem{{State: "shutting down"}}
	}
	var list []proxy.Problem
	for _, problem := range []proxy.Problem{
		{State: "nothing new is kept", Err: a.disk.Ready()},
		{State: "no new version is recorded", Err: a.Ledger.Failed()},
		{State: "no client can be identified", Err: a.authReady()},
		{State: "no package is fetched from a git repository", Err: a.noGit, Minor: true},
	} {
		if problem.Err != nil {
			list = append(list, problem)
		}
	}
	return list
}

// Home returns the text for a browser that sees the proxy at the URL base, which is empty if that is not known.
func (p process) Home(base string) string {
	text := "modproxy, a caching proxy for module registries of Terraform and OpenTofu.\n\n"
	if base == "" {
		return text + "It does not know the address that you see it under: set public_url.\n"
	}
	return text + ClientConfig(base, "", p.app.config)
}
