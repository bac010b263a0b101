package upstream

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Package fetches the package of v from where its registry says that it is, into a file that closing removes. A release of a
// provider has been verified, and the zip archive for a platform is what the registry says; it is for the caller to know
// that the two agree.
func (c *Client) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if v.IsProvider() {
		p, err := c.providerPackage(ctx, v)
		return p, modproxy.Wrap("package", v, err)
	}
	p, err := c.fetch(ctx, v, "")
	return p, modproxy.Wrap("package", v, err)
}

// fetch fetches the package of v from where its registry says that it is: what is there, or at commit, unless that is
// empty.
func (c *Client) fetch(ctx context.Context, v modproxy.Ref, commit string) (*modproxy.Package, error) {
	s, known := c.located.Get(v)
	if !known {
		var err error
		if s, err = c.locate(ctx, v); err != nil {
			return nil, err
		}
	}
	s.Commit = commit
	return c.cfg.Fetch.Package(ctx, s)
}

// Commit returns the commit at which v's registry says now that v is. The result is empty where that cannot be
// known without fetching it. Errors are those of Location.
func (c *Client) Commit(ctx context.Context, v modproxy.Ref) (string, error) {
	if v.IsProvider() {
		return "", nil
	}
	var commit string
	s, err := c.locate(ctx, v)
	if err == nil {
		commit, err = c.cfg.Fetch.Commit(ctx, s)
	}
	return commit, modproxy.Wrap("location", v, err)
}
