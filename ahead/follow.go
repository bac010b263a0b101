package ahead

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/internal/retry"
	"github.com/modproxy/modproxy/tfconfig"
)

const (
	maxTime     = 5 * time.Minute // of a task, with all that it waits for
	maxPackages = 100             // that a task has fetched
	maxModules  = 200             // whose versions a task asks for
	maxDepth    = 10              // calls of which each leads to the next, with those of local directories
	laterWithin = time.Minute     // a question is asked again later
)

// errEnough is why a task brings nothing more. Nobody is told.
var errEnough = fmt.Errorf("%w: enough was read ahead", modproxy.ErrDenied)

// rights returns what is the same for clients that may have the same and read it in the same way.
func (r *Registry) rights(ctx context.Context) string {
	asker := modproxy.AskerOf(ctx)
	text := fmt.Sprintf("%q %q", clientsOf(asker), asker.Groups)
	if r.Rights != nil {
		text += " " + r.Rights.Rights(ctx)
	}
	return text
}

// clientsOf returns the programs that a client may be.
func clientsOf(asker modproxy.Asker) []tfconfig.Client {
	switch program, _, _ := strings.Cut(asker.Program, "/"); program {
	case "Terraform":
		return []tfconfig.Client{tfconfig.Terraform}
	case "OpenTofu":
		return []tfconfig.Client{tfconfig.OpenTofu}
	}
	return []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu}
}

// follow brings what v calls, for the client of ctx.
func (r *Registry) follow(ctx context.Context, v modproxy.Ref) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	defer context.AfterFunc(r.ending, cancel)()
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return
	}
	run := &run{Registry: r, start: v, known: map[modproxy.Ref]bool{}}
	// It has a name, as of what has none all directories are read that a source can name.
	call := tfconfig.Call{Name: "client", Source: v.Address.String(), Version: v.Version}
	var starts []closure.Start
	for _, client := range clientsOf(modproxy.AskerOf(ctx)) {
		starts = append(starts, closure.Start{Client: client, Call: call})
	}
	walker := &closure.Walker{
		Registry: run, Routes: r.Routes, Reader: r.Reader, AtOnce: maxFetches, Depth: maxDepth, CallsOnly: true,
	}
	_ = walker.Walk(ctx, starts, func(closure.Found) {}) // what is in its way is the client's to be told
}

// run is the registry of one task.
type run struct {
	*Registry
	start modproxy.Ref

	mu      sync.Mutex
	modules int
	fetched int
	known   map[modproxy.Ref]bool // that are kept, or were fetched
}

// Versions asks for the versions of a module. That which the client was told of has been chosen, and is the only one of
// its module.
func (t *run) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	if m == t.start.Address {
		chosen, err := modproxy.ParseVersion(t.start.Version)
		return &modproxy.Versions{List: []modproxy.Listed{{Version: chosen}}}, err
	}
	t.mu.Lock()
	t.modules++
	over := t.modules > maxModules
	t.mu.Unlock()
	if over {
		return nil, errEnough
	}
	return insist(ctx, t, func(ctx context.Context) (*modproxy.Versions, error) { return t.Quiet.Versions(ctx, m) })
}

// Package waits for a package, which it has fetched if that is neither kept nor what the client asks for itself.
func (t *run) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	t.mu.Lock()
	known := t.known[v] || v == t.start
	t.mu.Unlock()
	if !known {
		kept, err := t.Kept.Has(ctx, v)
		if err != nil {
			return nil, err
		}
		known = kept
	}
	if known {
		return t.open(ctx, v)
	}
	t.mu.Lock()
	t.fetched++
	over := t.fetched > maxPackages
	t.mu.Unlock()
	if over {
		return nil, errEnough
	}
	return t.fetch(ctx, v)
}

// fetch has a package fetched.
func (t *run) fetch(ctx context.Context, v modproxy.Ref) (p *modproxy.Package, err error) {
	select {
	case t.fetches <- struct{}{}:
		defer func() { <-t.fetches }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := t.Room.Room(ctx, t.Largest*int64(len(t.fetches)), true); err != nil {
		return nil, err
	}
	var l modproxy.Location
	ended := t.expect(v)
	defer func() { ended(err == nil && !keptBefore(l)) }()
	l, err = insist(ctx, t, func(ctx context.Context) (modproxy.Location, error) { return t.Quiet.Location(ctx, v) })
	if err == nil {
		p, err = t.open(ctx, v)
	}
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.known[v] = true
	}
	return p, err
}

func (t *run) open(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return insist(ctx, t, func(ctx context.Context) (*modproxy.Package, error) { return t.Quiet.Package(ctx, v) })
}

// insist asks in the background, and again when the answer is to come back later, for as long as laterWithin and while the
// client may have anything. Each question has a mark of its own: a client that waits for one of them does not wait for the
// others.
func insist[T any](ctx context.Context, t *run, ask func(context.Context) (T, error)) (answer T, err error) {
	return retry.Later(ctx, laterWithin, func() (answer T, err error) {
		if t.Rights != nil {
			if err := t.Rights.Still(ctx); err != nil {
				return answer, err
			}
		}
		return ask(modproxy.InBackground(ctx))
	})
}
