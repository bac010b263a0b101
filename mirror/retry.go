package mirror

import (
	"context"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/retry"
	"github.com/modproxy/modproxy/policy"
)

// retryTime is how long a request is repeated. A registry with a rate limit returns a longer wait at most once in that time.
const retryTime = 10 * time.Minute

// retryingRegistry returns the answers that a client gets if it repeats its requests for as long as the registries say.
type retryingRegistry struct {
	next      modproxy.Registry
	cache     Cache
	upstreams Upstreams // nil if modproxy is offline
}

// asOperator returns a registry with the answers for clients in groups, which e.Gate decides about, and a context for requests to
// it. The requests wait for the dates of versions that e.Gate needs. Denials are not recorded as requests of clients.
func (e *Engine) asOperator(ctx context.Context, groups []string) (context.Context, modproxy.Registry) {
	ctx = modproxy.WithClient(modproxy.WithDates(ctx), modproxy.Client{Name: "operator", DisplayName: "operator", Groups: groups})
	return ctx, &retryingRegistry{&policy.Registry{Next: e.Cache, Gate: e.Gate}, e.Cache, e.Upstreams}
}

// Versions requests the versions again from the registry if the stored list is stale. If the registry does not answer, the stale list
// is not enough: Versions returns an error.
func (r *retryingRegistry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := repeat(ctx, r, m, func() (*modproxy.Versions, error) { return r.next.Versions(ctx, m) })
	if err != nil || !v.Stale || r.upstreams == nil {
		return v, err
	}
	return repeat(ctx, r, m, func() (*modproxy.Versions, error) {
		if _, err := r.cache.Refresh(ctx, m); err != nil {
			return nil, err
		}
		return r.next.Versions(ctx, m)
	})
}

// Location implements [modproxy.Registry].
func (r *retryingRegistry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return repeat(ctx, r, v.Address, func() (modproxy.Location, error) { return r.next.Location(ctx, v) })
}

// Package implements [modproxy.Registry].
func (r *retryingRegistry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return repeat(ctx, r, v.Address, func() (*modproxy.Package, error) { return r.next.Package(ctx, v) })
}

// repeat repeats a request while its error is [modproxy.RetryLater], at most for retryTime.
func repeat[T any](ctx context.Context, r *retryingRegistry, m modproxy.Address, request func() (T, error)) (answer T, err error) {
	if r.upstreams != nil && !r.upstreams.HasUpstream(m.Host) {
		return answer, fmt.Errorf("%w: %s: %s is not among upstreams", modproxy.ErrInvalid, m, m.Host)
	}
	return retry.Later(ctx, retryTime, request)
}
