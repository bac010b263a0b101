package prefetch

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
	maxPackages = 100             // downloads of a task
	maxModules  = 200             // modules whose versions a task requests
	maxDepth    = 10              // length of a chain of calls, including calls of local directories
	retryFor    = time.Minute     // how long a task repeats a request that is to be sent again later
)

// errEnough ends a task that has reached a bound. It is not reported.
var errEnough = fmt.Errorf("%w: a bound of prefetching is reached", modproxy.ErrDenied)

// rights returns a text that is the same for clients that have the same rights and read packages in the same way.
func (p *Prefetcher) rights(ctx context.Context) string {
	asker := modproxy.ClientOf(ctx)
	return fmt.Sprintf("%q %q %s", clientsOf(asker), asker.Groups, p.config.Rights.Rights(ctx))
}

// clientsOf returns the programs that a client may be.
func clientsOf(asker modproxy.Client) []tfconfig.Client {
	switch program, _, _ := strings.Cut(asker.Program, "/"); program {
	case "Terraform":
		return []tfconfig.Client{tfconfig.Terraform}
	case "OpenTofu":
		return []tfconfig.Client{tfconfig.OpenTofu}
	}
	return []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu}
}

// follow prefetches what v calls, for the client of ctx.
func (p *Prefetcher) follow(ctx context.Context, v modproxy.Ref) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	defer context.AfterFunc(p.ending, cancel)()
	give, err := p.running.Take(ctx)
	if err != nil {
		return
	}
	defer give()
	run := &run{Prefetcher: p, start: v, known: map[modproxy.Ref]bool{}}
	// The call has a name: for a call without a name, a walker reads all directories that a source can name.
	call := tfconfig.Call{Name: "client", Source: v.Address.String(), Version: v.Version}
	var starts []closure.Start
	for _, client := range clientsOf(modproxy.ClientOf(ctx)) {
		starts = append(starts, closure.Start{Client: client, Call: call})
	}
	walker := &closure.Walker{
		Registry: run, Routes: p.config.Routes, Reader: p.config.Reader, AtOnce: maxFetches, Depth: maxDepth, CallsOnly: true,
	}
	_ = walker.Walk(ctx, starts, func(closure.Found) {}) // the client receives the errors when it requests the modules
}

// run is the registry of a running task.
type run struct {
	*Prefetcher
	start modproxy.Ref

	mu      sync.Mutex // guards the fields below
	modules int
	fetched int
	known   map[modproxy.Ref]bool // cached or downloaded packages
}

// Versions requests the versions of a module. The client has chosen the version of the module that the task begins with: it is the
// only one.
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
	return repeat(ctx, t, func(ctx context.Context) (*modproxy.Versions, error) { return t.config.Silent.Versions(ctx, m) })
}

// Location requests the location of a package. A walker does not call it.
func (t *run) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return repeat(ctx, t, func(ctx context.Context) (modproxy.Location, error) { return t.config.Silent.Location(ctx, v) })
}

// Package waits for a package. It starts the download, unless the package is cached or the client requests it.
func (t *run) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	t.mu.Lock()
	known := t.known[v] || v == t.start
	t.mu.Unlock()
	if !known {
		stored, err := t.config.Stored.Exists(ctx, v)
		if err != nil {
			return nil, err
		}
		known = stored
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

// fetch downloads a package.
func (t *run) fetch(ctx context.Context, v modproxy.Ref) (p *modproxy.Package, err error) {
	give, err := t.fetches.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	if err := t.config.Room.Room(ctx, t.config.Largest*int64(t.fetches.Taken()), true); err != nil {
		return nil, err
	}
	var l modproxy.Location
	end := t.track(v)
	defer func() { end(err == nil && !wasStored(l)) }()
	l, err = t.Location(ctx, v)
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
	return repeat(ctx, t, func(ctx context.Context) (*modproxy.Package, error) { return t.config.Silent.Package(ctx, v) })
}

// repeat sends a request in the background. It repeats the request while the answer is to come later, for retryFor at most and while
// the client has its rights. Each request has a mark of its own: a client that waits for one of them does not bring the others
// forward.
func repeat[T any](ctx context.Context, t *run, request func(context.Context) (T, error)) (T, error) {
	return retry.Later(ctx, retryFor, func() (answer T, err error) {
		if err = t.config.Rights.Still(ctx); err != nil {
			return answer, err
		}
		return request(modproxy.InBackground(ctx))
	})
}
