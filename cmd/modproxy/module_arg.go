package main

import (
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/hostname"
)

// parseModule reads a module address as people write it. Without a hostname it is
// one at the given host; that may be empty, and then there must be one. The error
// is [modproxy.ErrInvalid].
func parseModule(s, host string) (modproxy.Module, error) {
	parts := strings.Split(s, "/")
	if len(parts) == 3 && host != "" {
		parts = append([]string{host}, parts...)
	}
	if len(parts) != 4 {
		return modproxy.Module{}, fmt.Errorf("%w: %.200q is no module address: want registry.example.com/namespace/name/system", modproxy.ErrInvalid, s)
	}
	m := modproxy.Module{Namespace: parts[1], Name: parts[2], System: parts[3]}
	var err error
	if m.Host, err = hostname.Parse(hostname.Display(parts[0])); err != nil {
		return modproxy.Module{}, err
	}
	return m, m.Check()
}

// defaultHost is the registry whose modules may be named without their host.
func defaultHost(c *config.Config) string {
	for _, u := range c.Upstreams {
		if u.Host != "*" {
			return u.Host
		}
	}
	return ""
}
