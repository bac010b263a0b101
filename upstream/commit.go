package upstream

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Commit is the git commit at which v's registry says now that v is, where
// that can be known without fetching it; else it is empty. Errors are those of
// Location.
func (c *Client) Commit(ctx context.Context, v modproxy.ModuleVersion) (string, error) {
	l, err := c.locate(ctx, v.Module, v.Version)
	commit := ""
	if err == nil && l.Getter == "git" {
		commit, err = c.cfg.Git(v.Module).Commit(ctx, l.URL)
	}
	if err != nil {
		return "", &modproxy.Error{Op: "location", Module: v.Module, Version: v.Version, Err: err}
	}
	return commit, nil
}
