package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/internal/hint"
)

// BaseURL returns the URL under which clients find this proxy, without a slash at
// its end.
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
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", Error{hint.With(errors.New("nobody knows the port: listen says any free one"), "say --url")}
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

// HasUpstream reports whether the registry of that name may be asked.
func (c *Config) HasUpstream(host string) bool {
	return slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Host == host || u.Host == "*" })
}

// LedgerDir returns the directory of the ledger in the data directory.
func (c *Config) LedgerDir() string { return filepath.Join(c.Data, "ledger") }

// TokensFile returns the file of the tokens.
func (c *Config) TokensFile() string { return filepath.Join(c.Data, "auth", "tokens.json") }

// KeyFile returns the file of the key that package paths are signed with.
func (c *Config) KeyFile() string { return filepath.Join(c.Data, "auth", "key") }

// DefaultHost returns the registry whose modules may be named without their host, or
// an empty string.
func (c *Config) DefaultHost() string {
	for _, u := range c.Upstreams {
		if u.Host != "*" {
			return u.Host
		}
	}
	return ""
}
