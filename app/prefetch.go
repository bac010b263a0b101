package app

import (
	"context"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/prefetch"
	"github.com/modproxy/modproxy/tfconfig"
)

// newPrefetcher returns an observer that prefetches from silent. silent applies the policy and the scopes of the client.
func (p *parts) newPrefetcher(stored *cache.Registry, silent modproxy.Registry) *prefetch.Prefetcher {
	return prefetch.New(prefetch.Config{
		Silent: silent, Stored: stored, Room: room{p}, Largest: p.limits().Packed, Routes: routes{p.config},
		Reader: tfconfig.NewReader(p.Store, p.reader.MaxStored), // separate, so that clients do not wait for it
		Rights: rights{p}, Observer: p.metrics,
	})
}

// room implements [prefetch.Room].
type room struct{ *parts }

// Room returns an error if cache.max_size or the disk has no room for n more bytes.
func (r room) Room(ctx context.Context, n int64, stays bool) error {
	if err := r.Store.Room(ctx, n, stays); err != nil {
		return err
	}
	return r.disk.Room(n)
}

// rights implements [prefetch.Rights].
type rights struct{ *parts }

// Rights returns what the principal may read.
func (rights) Rights(ctx context.Context) string {
	return fmt.Sprintf("%q", auth.PrincipalOf(ctx).Scopes)
}

// Still returns the reason why the credential of the principal is not valid any more, or nil.
func (r rights) Still(ctx context.Context) error {
	if r.auth == nil {
		return nil
	}
	return r.auth.Still(auth.PrincipalOf(ctx), time.Now())
}
