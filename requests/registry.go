package requests

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// Registry gives the answers of Next, which is offline, and remembers what clients asked for that is not kept. A client
// that asked for the versions of a module, and in the next seconds for none of them, has found none that its constraint
// allows: it does not say which one it wanted.
type Registry struct {
	Next modproxy.Registry
	Log  *Log

	mu       sync.Mutex
	choosing map[choice]*time.Timer // of clients that were told versions just now
}

var _ modproxy.Registry = (*Registry)(nil)

// choice is the choice of a client among the versions of a module.
type choice struct {
	asker  string
	module modproxy.Address // folded
}

const (
	chooseIn    = 3 * time.Second // the clients ask for a version at once, or for none
	maxChoosing = 4096            // those beyond are not noticed
)

// Versions returns the answer of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := r.Next.Versions(ctx, m)
	if err != nil {
		return nil, r.missed(ctx, err)
	}
	if m.IsProvider() { // clients ask for its versions also when they have one
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

// chosen ends a choice, and reports whether it had not ended.
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

// Location returns the answer of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	r.chosen(choice{modproxy.AskerOf(ctx).Name, v.Address.Folded()})
	l, err := r.Next.Location(ctx, v)
	return l, r.missed(ctx, err)
}

// Package returns the answer of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.Next.Package(ctx, v)
	return p, r.missed(ctx, err)
}

// missed remembers what err says is not kept, and returns err.
func (r *Registry) missed(ctx context.Context, err error) error {
	if missing, ok := errors.AsType[*modproxy.NotKept](err); ok {
		r.Log.See(missing.Ref, modproxy.AskerOf(ctx))
	}
	return err
}
