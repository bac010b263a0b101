package app

import (
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/config"
)

// stayPut tells r what does not go when room is made: what was set aside, and the
// packages that are pinned. The scopes have been checked.
func stayPut(r *cache.Registry, store *disk.Store, c *config.Config) error {
	r.Beside = func() (int64, error) {
		all, err := store.Quarantined(0, false)
		return all.Bytes, err
	}
	pinned, err := config.ParseScopes(c.Cache.Pinned)
	if len(pinned) > 0 {
		r.Pinned = pinned.Covers
	}
	return err
}
