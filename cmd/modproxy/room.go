package main

import (
	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
)

// stayPut tells r what does not go when room is made: what was set aside, and the
// packages that are pinned. The scopes have been checked.
func stayPut(r *cache.Registry, store *disk.Store, c *Config) error {
	r.Beside = func() (int64, error) {
		all, err := store.Quarantined(0, false)
		return all.Bytes, err
	}
	var err error
	r.Pinned, err = covers(c.Cache.Pinned)
	return err
}

// covers tells of a module whether one of the scopes covers it; nil without scopes.
func covers(scopes []string) (func(modproxy.Module) bool, error) {
	var list []auth.Scope
	for _, s := range scopes {
		scope, err := parseScope(s)
		if err != nil {
			return nil, err
		}
		list = append(list, scope)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return auth.Grant{Scopes: list}.MayRead, nil
}
