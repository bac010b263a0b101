package upstream

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Commit is the git commit at which m's registry says now that version is, where
// that can be known without fetching it; else it is empty. Errors are those of
// Location.
func (c *Client) Commit(ctx context.Context, m modproxy.Module, version string) (string, error) {
	l, err := c.locate(ctx, m, version)
	commit := ""
	if err == nil && l.Getter == "git" {
		commit, err = c.cfg.Git(m).Commit(ctx, l.URL)
	}
	if err != nil {
		return "", &modproxy.Error{Op: "location", Module: m, Version: version, Err: err}
	}
	return commit, nil
}
