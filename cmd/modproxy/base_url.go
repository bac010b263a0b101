package main

import (
	"errors"
	"net"
	"net/netip"
)

// baseURL is where clients find this proxy, without a slash at its end.
func baseURL(c *Config) (string, error) {
	if c.PublicURL != "" {
		return cutSlash(c.PublicURL), nil
	}
	return localURL(c)
}

// localURL is where this machine finds the proxy that c configures.
func localURL(c *Config) (string, error) {
	if _, err := parseListen(c.Listen); err != nil {
		return "", misuse{errors.New("listen: " + err.Error())}
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", misuse{withHint(errors.New("nobody knows the port: listen says any free one"), "say --url")}
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

func cutSlash(s string) string {
	for len(s) > 0 && s[len(s)-1] == '/' {
		s = s[:len(s)-1]
	}
	return s
}
