package app

import (
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/config"
)

// stayPut tells r what does not go when room is made: what was set aside, and the
// packages that are pinned.
func stayPut(r *cache.Registry, store *disk.Store, c *config.Config) {
	r.Beside = func() (int64, error) {
		all, err := store.Quarantined(0, false)
		return all.Bytes, err
	}
	if len(c.Cache.Pinned) > 0 {
		r.Pinned = c.Cache.Pinned.Covers
	}
}
