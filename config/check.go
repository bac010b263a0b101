package config

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
)

// checker finds what is wrong with values that are well formed for themselves.
type checker struct {
	sources  *Sources
	problems Error
}

// check finds everything that is wrong with c, and normalises its hostnames.
func check(c *Config, sources *Sources) Error {
	k := &checker{sources: sources}
	k.listener(c)
	k.auth(c)
	k.upstreams(c.Upstreams)
	k.routes(c)
	k.egress(c.Egress)
	k.reach(c)
	k.credentials(c.Credentials)
	k.bounds(c)
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		k.fail("log.level", "want debug, info, warn or error, not %.80q", c.Log.Level)
	}
	return k.problems
}

func (k *checker) fail(path, format string, args ...any) {
	k.problems = append(k.problems, k.problem(path, format, args...))
}

// problem is an error that names the key and the place that set it.
func (k *checker) problem(path, format string, args ...any) error {
	err := fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...))
	if source := k.sources.Of(path); source != (Source{}) {
		return fmt.Errorf("%s: %w", source, err)
	}
	return err
}

func (k *checker) listener(c *Config) {
	if _, err := parseListen(c.Listen); err != nil {
		k.fail("listen", "%w", err)
	}
	if c.PublicURL != "" {
		if err := CheckURL(c.PublicURL); err != nil {
			k.fail("public_url", "%w", err)
		}
	}
	for i, proxy := range c.TrustedProxies {
		if _, err := ParseNetwork(proxy); err != nil {
			k.fail(fmt.Sprintf("trusted_proxies[%d]", i), "%w", err)
		}
	}
	if c.Data == "" {
		k.fail("data", "want a directory")
	}
	switch {
	case c.TLS.CertFile == "" && c.TLS.KeyFile != "":
		k.fail("tls.key_file", "tls.cert_file is missing")
	case c.TLS.CertFile != "" && c.TLS.KeyFile == "":
		k.fail("tls.cert_file", "tls.key_file is missing")
	}
}

// parseListen reports whether only this machine can reach an address to listen on.
func parseListen(s string) (loopback bool, err error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false, fmt.Errorf("want an address and a port, such as 127.0.0.1:8080, not %.80q", s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, fmt.Errorf("want a port from 0 to 65535, not %.80q", port)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "":
		return false, nil
	case err == nil:
		return ip.Unmap().IsLoopback(), nil
	case host == "localhost":
		return true, nil
	}
	if _, err := hostname.Parse(host); err != nil {
		return false, err
	}
	return false, nil
}

// CheckURL says what keeps s from being an absolute URL to which paths can be
// added. It does not repeat s, which may carry a credential.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		return fmt.Errorf("want an absolute URL, such as https://modules.example.com")
	case u.User != nil:
		return fmt.Errorf("must not have a username or password in it")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return fmt.Errorf("must not have a query or fragment")
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("port %.80q is none", port)
		}
	}
	return nil
}

// ParseNetwork reads a network or a single address.
func ParseNetwork(s string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix.Masked(), nil
	}
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("want an address or a network, such as 10.0.0.0/8, not %.80q", s)
	}
	return netip.PrefixFrom(ip, ip.BitLen()), nil
}

func (k *checker) upstreams(upstreams []Upstream) {
	if len(upstreams) == 0 {
		k.fail("upstreams", "want at least one")
	}
	seen := map[string]bool{}
	for i := range upstreams {
		u, path := &upstreams[i], fmt.Sprintf("upstreams[%d]", i)
		if u.Host != "*" {
			k.host(path+".host", &u.Host)
		} else if u.Modules != "" || u.Providers != "" || !u.Token.IsZero() || u.TokenFile != "" {
			k.fail(path, `what every registry would get or be needs a host of its own, not "*"`)
		}
		if seen[u.Host] {
			k.fail(path+".host", "%s is there twice", u.Host)
		}
		seen[u.Host] = u.Host != ""
		if u.Modules != "" {
			if err := CheckURL(u.Modules); err != nil {
				k.fail(path+".modules", "%w", err)
			}
		}
		if u.Providers != "" {
			if err := CheckURL(u.Providers); err != nil {
				k.fail(path+".providers", "%w", err)
			}
		}
		if !u.Token.IsZero() && u.TokenFile != "" {
			k.fail(path, "token and token_file are both set")
		}
		if u.Rate < 0 {
			k.fail(path+".rate", "must not be less than 0")
		}
	}
}

// host normalises a hostname in its place, and reports whether it is one.
func (k *checker) host(path string, host *string) bool {
	switch normalised, err := hostname.Parse(*host); {
	case *host == "":
		k.fail(path, "missing")
	case strings.ContainsAny(*host, "@/"):
		k.fail(path, "want a hostname, not a URL") // which may carry a credential
	case err != nil:
		k.fail(path, "%w", err)
	default:
		*host = normalised
		return true
	}
	return false
}

func (k *checker) routes(c *Config) {
	seen := map[string]bool{}
	for i := range c.Routes {
		r, path := &c.Routes[i], fmt.Sprintf("routes[%d]", i)
		if err := (modproxy.Module{Namespace: r.Namespace, Name: "x", System: "x"}).Check(); err != nil {
			k.fail(path+".namespace", "%w", err)
		}
		if seen[r.Namespace] {
			k.fail(path+".namespace", "%s is there twice", r.Namespace)
		}
		seen[r.Namespace] = true
		if k.host(path+".upstream", &r.Upstream) && !slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Host == r.Upstream }) {
			k.fail(path+".upstream", "%.80q is not one of the upstreams", r.Upstream)
		}
	}
}

func (k *checker) egress(e Egress) {
	for i, allowed := range e.Allow {
		_, notPrefix := ParseNetwork(allowed)
		_, notAddrPort := netip.ParseAddrPort(allowed)
		if notPrefix != nil && notAddrPort != nil {
			// As written: without its port 443 an exception would be for every port.
			k.host(fmt.Sprintf("egress.allow[%d]", i), &allowed)
		}
	}
	for i, port := range e.Ports {
		if port < 1 || port > 65535 {
			k.fail(fmt.Sprintf("egress.ports[%d]", i), "want a port from 1 to 65535, not %d", port)
		}
	}
}

// reach finds upstreams that egress is sure to refuse: every client would be told so,
// and nobody who could change it.
func (k *checker) reach(c *Config) {
	policy, err := egress.New(egress.Config{Allow: c.Egress.Allow, Ports: c.Egress.Ports})
	if err != nil || c.Offline {
		return // what is wrong with it is said elsewhere
	}
	for i, u := range c.Upstreams {
		at, err := url.Parse(u.Modules)
		if u.Modules == "" || err != nil || CheckURL(u.Modules) != nil {
			continue
		}
		if err := policy.Check(context.Background(), at); err != nil {
			k.fail(fmt.Sprintf("upstreams[%d].modules", i), "%w", err)
		}
	}
}

func (k *checker) credentials(credentials []Credential) {
	seen := map[string]bool{}
	for i := range credentials {
		c, path := &credentials[i], fmt.Sprintf("credentials[%d]", i)
		k.host(path+".host", &c.Host)
		if seen[c.Host] {
			k.fail(path+".host", "%s is there twice", c.Host)
		}
		seen[c.Host] = c.Host != ""
		password := !c.Password.IsZero() || c.PasswordFile != ""
		switch {
		case !c.Password.IsZero() && c.PasswordFile != "":
			k.fail(path, "password and password_file are both set")
		case !password && c.Username != "":
			k.fail(path+".username", "password is missing")
		case !password && c.SSHKeyFile == "":
			k.fail(path, "want a password or an SSH key")
		}
		if (c.SSHKeyFile == "") != (c.KnownHostsFile == "") {
			k.fail(path, "want both ssh_key_file and known_hosts_file, or neither")
		}
		for j, s := range c.Scopes {
			if _, err := ParseScope(s); err != nil {
				k.fail(fmt.Sprintf("%s.scopes[%d]", path, j), "%w", err)
			}
		}
	}
}

// bounds checks that what limits something is a limit.
func (k *checker) bounds(c *Config) {
	for _, bound := range []struct {
		path string
		n    int64
	}{
		{"cache.fresh", int64(c.Cache.Fresh)},
		{"cache.max_stale", int64(c.Cache.MaxStale)},
		{"cache.missing", int64(c.Cache.Missing)},
		{"cache.memory", int64(c.Cache.Memory)},
		{"fetch.timeout", int64(c.Fetch.Timeout)},
		{"fetch.at_once", int64(c.Fetch.AtOnce)},
		{"fetch.max_received", int64(c.Fetch.MaxReceived)},
		{"fetch.max_unpacked", int64(c.Fetch.MaxUnpacked)},
		{"fetch.max_files", int64(c.Fetch.MaxFiles)},
		{"auth.signed_paths", int64(c.Auth.SignedPaths)},
		{"limits.connections", int64(c.Limits.Connections)},
		{"limits.requests", int64(c.Limits.Requests)},
		{"shutdown", int64(c.Shutdown)},
	} {
		if bound.n <= 0 {
			k.fail(bound.path, "must be more than 0")
		}
	}
	if c.Limits.Rate < 0 {
		k.fail("limits.rate", "must not be less than 0")
	}
	if c.Ledger.Recheck != 0 && c.Ledger.Recheck < time.Minute {
		k.fail("ledger.recheck", "must be 0s or at least 1m")
	}
	if c.Cache.MaxSize < 0 {
		k.fail("cache.max_size", "must not be less than 0")
	}
	for i, s := range c.Cache.Pinned {
		if _, err := ParseScope(s); err != nil {
			k.fail(fmt.Sprintf("cache.pinned[%d]", i), "%w", err)
		}
	}
	if c.Cache.MaxVersions < 0 {
		k.fail("cache.max_versions", "must not be less than 0")
	}
	if c.Cache.MaxStale < c.Cache.Fresh {
		k.fail("cache.max_stale", "must not be less than cache.fresh")
	}
}
