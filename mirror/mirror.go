// Package mirror fetches all packages that configurations install, before clients request them.
//
// # Use
//
// An [Engine] has the cache, the policy and the routes of a proxy. [Engine.Fetch] downloads all that a [Request] selects, and
// [Engine.Check] reports which of these packages are not cached. Both report each result as a [Line]. [ParseList] and
// [ReadLockFile] read the parts of a Request from files.
//
// # Invariants
//
// The versions are the ones that clients choose, under the policy for clients in the groups of the Request. A package that cannot
// be fetched is a problem of the call that leads to it, and the run continues. Cached packages are not downloaded again, so an
// interrupted run can be repeated. Writing static sites is the work of package static.
//
// # Specification
//
// Package closure specifies which versions clients choose, and docs/how-to/mirror.md how operators use mirrors.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/tfconfig"
)

// An Engine fetches what configurations install. It is safe for concurrent use, also while the cache answers clients: its downloads
// share the slots of the cache with theirs.
type Engine struct {
	Cache      Cache
	Store      *store.Store // of Cache
	Ledger     cache.Ledger
	Gate       *policy.Gate
	Upstreams  Upstreams        // nil if modproxy is offline; then Fetch returns ErrOffline
	Routes     closure.Routes   // to Upstreams
	Reader     *tfconfig.Reader // of the packages in Store
	Nested     Nested           // nil unless nested sources are rewritten
	CachedOnly bool             // must be set if modproxy is offline: Check then knows that clients get only cached versions
	// MayRead returns the reason why the user may not have the content of packages of m, or nil. If MayRead is nil, the user may
	// have all content.
	MayRead func(ctx context.Context, m modproxy.Address) error
}

// A Cache stores packages, and remembers the answers of registries.
type Cache interface {
	modproxy.Registry
	// Refresh requests the versions of m from its registry.
	Refresh(ctx context.Context, m modproxy.Address) (cache.Refreshed, error)
	// StoredVersions returns the stored versions of m, and requests nothing. If none are stored, the error is [fs.ErrNotExist].
	StoredVersions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error)
}

// Nested knows the sources in packages that do not lead to a registry.
type Nested interface {
	closure.Nested
	// Bring fetches the nested sources of a version. It returns when all that clients are served of the version is cached.
	Bring(ctx context.Context, v modproxy.Ref) error
}

// Upstreams are the registries that modproxy may request.
type Upstreams interface {
	HasUpstream(host string) bool
}

const (
	maxLocked      = 100_000
	maxTasks       = 32          // at a time; the cache and the registries have limits of their own
	progressPeriod = time.Second // between two lines with progress
)

// ErrOffline is the error of [Engine.Fetch] if modproxy is offline.
var ErrOffline = fmt.Errorf("%w: offline, and nothing is fetched", modproxy.ErrUnavailable)

// Fetch downloads the packages that in selects and that are not cached, and calls each with every line of the answer, one at a
// time. A package that cannot be fetched is a Line with a Problem, and no error. The error is [ErrOffline], [modproxy.ErrInvalid] for a
// request that is not valid, or that of ctx.
func (e *Engine) Fetch(ctx context.Context, in Request, each func(Line)) (Progress, error) {
	if e.Upstreams == nil {
		return Progress{}, ErrOffline
	}
	ctx, registry := e.asOperator(ctx, in.Groups)
	if e.Nested != nil && !in.Content { // a web server has packages as they are
		registry = nestedRegistry{registry, e.Nested}
	}
	return e.follow(ctx, newRun(e, in, registry), each)
}

// Check is [Engine.Fetch] without network: a package that is not cached is a problem, whose Lacks names it. Check requests nothing
// from registries, and uses the stored lists of versions.
func (e *Engine) Check(ctx context.Context, in Request, each func(Line)) (out Progress, err error) {
	cached := cache.New(cache.Config{Store: e.Store, Ledger: e.Ledger})
	defer func() { err = errors.Join(err, cached.Close(ctx)) }()
	registry := &policy.Registry{Next: cachedRegistry{e.Cache, cached, e.CachedOnly}, Gate: e.Gate}
	ctx = modproxy.WithClient(ctx, modproxy.Client{Groups: in.Groups})
	run := newRun(e, in, registry)
	run.checks = true
	return e.follow(ctx, run, each)
}

// Walk finds all modules and providers that clients in groups install for starts, and calls each with every result. It downloads the
// packages of modules that are not cached, because their calls are not known otherwise. Errors are those of [closure.Walker.Walk].
func (e *Engine) Walk(ctx context.Context, groups []string, starts []closure.Start, each func(closure.Found)) error {
	ctx, registry := e.asOperator(ctx, groups)
	w := closure.Walker{
		Registry: registry, Routes: e.Routes, Reader: e.Reader, Nested: e.Nested,
		MayRead: func(m modproxy.Address) error { return e.mayRead(ctx, m) },
	}
	return w.Walk(ctx, starts, each)
}

// mayRead returns the reason why the content of packages of m is not for the user, or nil.
func (e *Engine) mayRead(ctx context.Context, m modproxy.Address) error {
	if e.MayRead == nil {
		return nil
	}
	return e.MayRead(ctx, m)
}

// follow calls each with the lines of a run, with its progress every second, and at its end with the notes.
func (e *Engine) follow(ctx context.Context, r *run, each func(Line)) (Progress, error) {
	if err := r.Request.check(); err != nil {
		return Progress{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.do(ctx) }()
	tick := time.NewTicker(progressPeriod)
	defer tick.Stop()
	for {
		select {
		case line := <-r.out.lines:
			each(line)
		case <-tick.C:
			progress := r.progress.snapshot()
			each(Line{Progress: &progress})
		case err := <-ended:
			for _, line := range r.notes.lines() {
				each(line)
			}
			return r.progress.snapshot(), err
		}
	}
}
