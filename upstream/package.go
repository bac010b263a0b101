package upstream

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Package fetches the package of v from where its registry says that it is. It is read from a file without a name,
// which closing removes.
func (c *Client) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	return c.PackageAt(ctx, v, "")
}

// PackageAt is Package, but of what the repository has at commit, unless that is empty, wherever the ref in the
// location points. What has no commits is [modproxy.ErrInvalid].
func (c *Client) PackageAt(ctx context.Context, v modproxy.ModuleVersion, commit string) (*modproxy.Package, error) {
	var err error
	s, known := c.located.Get(v)
	if !known {
		s, err = c.locate(ctx, v)
	}
	var p *modproxy.Package
	if err == nil {
		s.Commit = commit
		p, err = c.cfg.Fetch.Package(ctx, s)
	}
	if err != nil {
		return nil, &modproxy.Error{Op: "package", Module: v.Module, Version: v.Version, Err: err}
	}
	return p, nil
}

// Commit returns the commit at which v's registry says now that v is. The result is empty where that cannot be
// known without fetching it. Errors are those of Location.
func (c *Client) Commit(ctx context.Context, v modproxy.ModuleVersion) (string, error) {
	s, err := c.locate(ctx, v)
	commit := ""
	if err == nil {
		commit, err = c.cfg.Fetch.Commit(ctx, s)
	}
	if err != nil {
		return "", &modproxy.Error{Op: "location", Module: v.Module, Version: v.Version, Err: err}
	}
	return commit, nil
}
