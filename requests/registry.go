package requests

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// Registry returns the results of Next, which is offline, and records requests for missing content. It also records a client
// that requests the versions of a module but no location in the next seconds: no listed version matched the client's
// constraint. The client does not send the version that it wanted.
type Registry struct {
	Next modproxy.Registry
	Log  *Log

	mu       sync.Mutex
	choosing map[choice]*time.Timer // of clients that recently received versions
}

var _ modproxy.Registry = (*Registry)(nil)

// choice is a client's pending choice among the versions of a module.
type choice struct {
	asker  string
	module modproxy.Address // folded
}

const (
	chooseIn    = 3 * time.Second // clients request a version immediately, or not at all
	maxChoosing = 4096            // further choices are not recorded
)

// Versions returns the result of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := r.Next.Versions(ctx, m)
	if err != nil {
		return nil, r.missed(ctx, err)
	}
	if m.IsProvider() { // clients request the versions of a provider even if they have one
		return v, nil
	}
	asker := modproxy.AskerOf(ctx)
	c := choice{asker.Name, m.Folded()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.choosing[c] != nil || len(r.choosing) >= maxChoosing {
		return v, nil
	}
	if r.choosing == nil {
		r.choosing = map[choice]*time.Timer{}
	}
	r.choosing[c] = time.AfterFunc(chooseIn, func() {
		if r.chosen(c) {
			r.Log.see(m.At(""), asker, v.ETag)
		}
	})
	return v, nil
}

// chosen ends a choice, and reports whether it was pending.
func (r *Registry) chosen(c choice) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	timer, ok := r.choosing[c]
	if ok {
		timer.Stop()
		delete(r.choosing, c)
	}
	return ok
}

// Location returns the result of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	r.chosen(choice{modproxy.AskerOf(ctx).Name, v.Address.Folded()})
	l, err := r.Next.Location(ctx, v)
	return l, r.missed(ctx, err)
}

// Package returns the result of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.Next.Package(ctx, v)
	return p, r.missed(ctx, err)
}

// missed records the missing content of a [modproxy.NotKept], and returns err.
func (r *Registry) missed(ctx context.Context, err error) error {
	if missing, ok := errors.AsType[*modproxy.NotKept](err); ok {
		r.Log.See(missing.Ref, modproxy.AskerOf(ctx))
	}
	return err
}
