package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/prefetch"
	"github.com/modproxy/modproxy/tfconfig"
)

// newPrefetcher returns an observer that prefetches from layer, with the rights that policy and tokens give the client.
func (a *App) newPrefetcher(layer modproxy.Registry) *prefetch.Prefetcher {
	silent := modproxy.Registry(&policy.Registry{Next: layer, Gate: a.gate})
	if a.config.RequiresToken() {
		silent = &auth.Registry{Next: silent}
	}
	return prefetch.New(prefetch.Config{
		Silent: silent, Stored: a.Cache, Room: room{a}, Largest: a.limits().Packed, Routes: routes{a.config},
		Reader: &tfconfig.Reader{Store: a.Store, MaxStored: a.reader.MaxStored}, // another one: clients do not wait for its turns
		Rights: rights{a}, Observer: a.metrics,
	})
}

// room implements [prefetch.Room].
type room struct{ app *App }

// Room returns why there is no room within cache.max_size, or on the disk.
func (r room) Room(ctx context.Context, n int64, stays bool) error {
	return cmp.Or(r.app.Store.Room(ctx, n, stays), r.app.disk.Room(n))
}

// rights implements [prefetch.Rights].
type rights struct{ app *App }

// Rights returns what the principal may read.
func (rights) Rights(ctx context.Context) string {
	return fmt.Sprintf("%q", auth.PrincipalOf(ctx).Scopes)
}

// Still returns why the principal is not identified any more.
func (r rights) Still(ctx context.Context) error {
	if r.app.auth == nil {
		return nil
	}
	return r.app.auth.Still(auth.PrincipalOf(ctx), time.Now())
}
