package upstream

import (
	"context"
	"fmt"

	"github.com/modproxy/modproxy"
)

// Package fetches the package of v from where its registry says that it is, into a file that closing removes. A release of a
// provider has been verified, and the zip archive for a platform is what the registry says; it is for the caller to know
// that the two agree.
func (c *Client) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	return c.PackageAt(ctx, v, "")
}

var errNoCommits = fmt.Errorf("%w: a provider has no commits", modproxy.ErrInvalid)

// PackageAt is Package, but of what the repository has at commit, unless that is empty, wherever the ref in the
// location points. What has no commits is [modproxy.ErrInvalid].
func (c *Client) PackageAt(ctx context.Context, v modproxy.ModuleVersion, commit string) (*modproxy.Package, error) {
	var p *modproxy.Package
	var err error
	if v.IsProvider() {
		if p, err = nil, errNoCommits; commit == "" {
			p, err = c.providerPackage(ctx, v)
		}
		return p, failed("package", v, err)
	}
	s, known := c.located.Get(v)
	if !known {
		s, err = c.locate(ctx, v)
	}
	if err == nil {
		s.Commit = commit
		p, err = c.cfg.Fetch.Package(ctx, s)
	}
	return p, failed("package", v, err)
}

// Commit returns the commit at which v's registry says now that v is. The result is empty where that cannot be
// known without fetching it. Errors are those of Location.
func (c *Client) Commit(ctx context.Context, v modproxy.ModuleVersion) (string, error) {
	if v.IsProvider() {
		return "", nil
	}
	var commit string
	s, err := c.locate(ctx, v)
	if err == nil {
		commit, err = c.cfg.Fetch.Commit(ctx, s)
	}
	return commit, failed("location", v, err)
}
