package upstream

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Package downloads the package of v from the location that its registry gives, into a file that Close removes. A
// release of a provider is verified. The zip archive for a platform matches the checksum that the registry gives; the
// caller must check that it also matches the release.
func (c *Client) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if v.IsProvider() {
		p, err := c.providerPackage(ctx, v)
		return p, modproxy.Wrap("package", v, err)
	}
	p, err := c.fetch(ctx, v, "")
	return p, modproxy.Wrap("package", v, err)
}

// fetch downloads the package of v from the location that its registry gives: at commit, or the current content if
// commit is empty.
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

// Commit returns the commit at which v's registry currently locates v. The result is empty if the commit cannot be
// determined without a download. Errors are those of Location.
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
