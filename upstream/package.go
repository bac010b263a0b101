package upstream

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Package downloads the package of v from the location that its registry gives, into a file that Close removes.
//
// A provider without a platform is a release: the checksums of all platforms, with their signature and keys. Package verifies the
// signature by release.Verify. With a platform ([modproxy.Ref.ForPlatform]) it is the zip archive for this platform. Package checks
// only that the archive has the checksum that the registry gives beside its URL. The caller must check that the recorded release has
// the same checksum, as ledger.Registry does with ledger.CheckArchive.
//
// Errors: those of [modproxy.Registry], without [modproxy.ErrChanged].
func (c *Client) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	var p *modproxy.Package
	var err error
	switch v.Kind() {
	case modproxy.Module:
		p, err = c.fetch(ctx, v, "")
	case modproxy.Provider:
		p, err = c.providerPackage(ctx, v)
	}
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
// determined without a download, such as for an archive. Errors are those of Location.
func (c *Client) Commit(ctx context.Context, v modproxy.Ref) (string, error) {
	if !v.IsModule() {
		return "", nil
	}
	var commit string
	s, err := c.locate(ctx, v)
	if err == nil {
		commit, err = c.cfg.Fetch.Commit(ctx, s)
	}
	return commit, modproxy.Wrap("location", v, err)
}
