package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// patient gives the answers that a client in some groups gets, or would get if it came again as long as it is told to.
// Nobody is said to have asked for what it is refused.
type patient struct {
	Next      modproxy.Registry
	cache     Cache
	upstreams Upstreams // nil when offline
}

// patience is how long a question is repeated. A registry that is asked for longest says so once in so many minutes.
const patience = 10 * time.Minute

// asOperator returns a registry for an operator's questions, which gate decides about, and a context for them. They wait for
// the dates that gate needs.
func (s *Server) asOperator(ctx context.Context, gate *policy.Gate, groups []string) (context.Context, modproxy.Registry) {
	ctx = modproxy.WithAsker(modproxy.WithDates(ctx), modproxy.Asker{Name: "operator", Shown: "operator", Groups: groups})
	return ctx, &patient{&policy.Registry{Next: s.Cache, Gate: gate}, s.Cache, s.Upstreams}
}

// mayRead returns why the content of packages of m is not for the caller; nil if it is.
func (s *Server) mayRead(ctx context.Context, m modproxy.Address) error {
	if s.Operators == nil {
		return nil
	}
	return s.Operators.MayRead(ctx, m)
}

// Versions asks upstream when what is kept is not fresh: a list that is served because upstream does not answer is an error.
func (p *patient) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := insist(ctx, p, m, func() (*modproxy.Versions, error) { return p.Next.Versions(ctx, m) })
	if err != nil || !v.Stale || p.upstreams == nil {
		return v, err
	}
	return insist(ctx, p, m, func() (*modproxy.Versions, error) {
		if _, err := p.cache.Refresh(ctx, m); err != nil {
			return nil, err
		}
		return p.Next.Versions(ctx, m)
	})
}

// Location implements [modproxy.Registry].
func (p *patient) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return insist(ctx, p, v.Address, func() (modproxy.Location, error) { return p.Next.Location(ctx, v) })
}

// Package implements [modproxy.Registry].
func (p *patient) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return insist(ctx, p, v.Address, func() (*modproxy.Package, error) { return p.Next.Package(ctx, v) })
}

// insist asks again when the answer is to come back later, for as long as patience.
func insist[T any](ctx context.Context, p *patient, m modproxy.Address, ask func() (T, error)) (answer T, err error) {
	if p.upstreams != nil && !p.upstreams.HasUpstream(m.Host) {
		return answer, fmt.Errorf("%w: %s: %s is not among upstreams", modproxy.ErrInvalid, m, m.Host)
	}
	for end := time.Now().Add(patience); ; {
		answer, err = ask()
		later, wait := errors.AsType[*modproxy.RetryLater](err)
		if !wait || later.After.After(end) {
			return answer, err
		}
		select {
		case <-time.After(max(time.Until(later.After), 100*time.Millisecond)):
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}
