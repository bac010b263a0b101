package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/hint"
)

// RequiresToken reports whether clients have to show a credential.
func (c *Config) RequiresToken() bool { return c.RequiresTokenBecause() != "" }

// RequiresTokenBecause returns why clients have to show a credential; empty if they do not have to. On a loopback
// address they have to if something stands in front that passes on the requests of others.
func (c *Config) RequiresTokenBecause() string {
	loopback, err := parseListen(c.Listen)
	switch {
	case c.Anonymous:
		return ""
	case c.Auth.Required:
		return "auth.required is true"
	case err != nil || !loopback:
		return "other machines can reach " + c.Listen
	case c.PublicURL != "" && !IsLocalURL(c.PublicURL):
		return "other machines are told of it: public_url is " + c.PublicURL
	case len(c.TrustedProxies) > 0:
		return "it has trusted_proxies, which stand in front of it for others"
	}
	return ""
}

// BaseURL returns the URL under which clients find this proxy, without a slash at its end.
func (c *Config) BaseURL() (string, error) {
	if c.PublicURL != "" {
		return strings.TrimRight(c.PublicURL, "/"), nil
	}
	return c.LocalURL()
}

// LocalURL returns the URL under which this machine finds the proxy.
func (c *Config) LocalURL() (string, error) {
	if _, err := parseListen(c.Listen); err != nil {
		return "", Error{fmt.Errorf("listen: %w", err)}
	}
	host, port, _ := net.SplitHostPort(c.Listen)
	if port == "0" {
		return "", Error{hint.With(errors.New("the port is not known: listen takes any free one"), "say --url")}
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http://"
	if c.TLS.CertFile != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port), nil
}

// CheckURL returns what keeps s from being an absolute URL to which paths can be added. It does not repeat s,
// which may carry a credential.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("want an absolute URL, such as https://modules.example.com")
	case u.User != nil:
		return errors.New("must not have a username or password in it")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return errors.New("must not have a query or fragment")
	case u.Port() != "" && !isPort(u.Port()):
		return fmt.Errorf("invalid port %.80q", u.Port())
	}
	return nil
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// IsLocalURL reports whether the host of a URL is this machine for everyone who uses it.
func IsLocalURL(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback() || hostname.IsLocalhost(u.Hostname())
}

// parseListen reports whether only this machine can reach an address to listen on.
func parseListen(s string) (loopback bool, err error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false, fmt.Errorf("want an address and a port, such as 127.0.0.1:8080, not %.80q", s)
	}
	if !isPort(port) {
		return false, fmt.Errorf("want a port from 0 to 65535, not %.80q", port)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback(), nil
	}
	if host != "" && host != "localhost" {
		_, err = hostname.Parse(host)
	}
	return host == "localhost", err
}

// HasUpstream reports whether the registry of that name may be asked.
func (c *Config) HasUpstream(host string) bool {
	return slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Host == host || u.Host == "*" })
}

// DefaultHost returns the registry whose modules may be named without their host, or an empty string.
func (c *Config) DefaultHost() string {
	for _, u := range c.Upstreams {
		if u.Host != "*" {
			return u.Host
		}
	}
	return ""
}

// LedgerDir returns the directory of the ledger in the data directory.
func (c *Config) LedgerDir() string { return filepath.Join(c.Data, "ledger") }

// TokensFile returns the file of the tokens.
func (c *Config) TokensFile() string { return filepath.Join(c.Data, "auth", "tokens.json") }

// KeyFile returns the file of the key that package paths are signed with.
func (c *Config) KeyFile() string { return filepath.Join(c.Data, "auth", "key") }
