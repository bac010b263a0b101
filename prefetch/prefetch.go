// Package prefetch downloads modules before the client that needs them requests them.
//
//	p := prefetch.New(prefetch.Config{Silent: auth(policy(reg)), Stored: cache, Room: room, Reader: reader})
//	reg = &observe.Registry{Next: policy(reg), Observers: []observe.Observer{p}}
//
// Clients install one module after the other: a client reads the calls of a package after it has installed the package, and then
// requests the first called module. When a client receives the location of a package that was not cached before, a [Prefetcher]
// starts a task in the background. The task waits for the package, reads it as the client does, and requests all called modules,
// the modules that they call, and so on. A package is parsed only if one of its lines looks like the beginning of a call, so a
// call in an unusual layout may be missed (tfconfig.Options.CallsOnly).
//
// A prefetch begins at the root of the requested package, because the client's request does not show the directory that its source
// names. The directories of called packages are known. A task follows calls of local directories, and of modules of registries that
// clients reach through this proxy. It does not follow other sources, and does not download required providers.
//
// Invariants: an answer to a client does not depend on a prefetch, except for its time. All requests have the values of the client's
// context, and not its cancellation: modproxy prefetches nothing that the client may not read, and nothing after the client's token
// was revoked. They go to Config.Silent, which does not report what it denies: a denied prefetch is not logged as a request of the
// client. Errors are left to the client, which receives them when it requests the module.
//
// # Bounds
//
// Clients with the same rights share one task for a version, even if 200 of them install it at the same moment. At most 256 tasks
// exist, and 16 of them run. One task downloads at most 100 packages, requests the versions of at most 200 modules, follows chains
// of at most 10 calls, and ends after five minutes. So cycles and thousands of calls end. All tasks together wait for at most four
// packages at a time. Before each download there must be room for the largest allowed package, beside all cached packages: if the
// store or the disk is full, nothing is prefetched, and nothing is evicted for it.
package prefetch

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/tfconfig"
)

// Config configures a [Prefetcher]. No field may be nil.
type Config struct {
	// Silent answers as the registry that clients ask, with the same checks of rights and policy, and does not report what it denies.
	// The checks need its own layers, because a Prefetcher sends its requests below those that clients pass.
	Silent   modproxy.Registry
	Stored   Stored
	Room     Room
	Largest  int64 // the largest size of a package, in bytes
	Routes   closure.Routes
	Reader   *tfconfig.Reader
	Rights   Rights
	Observer Observer // not an [observe.Observer], which the Prefetcher itself is
}

// Prefetcher downloads the modules that a package calls, when a client has received the location of the package. It is an
// [observe.Observer], and is safe for concurrent use.
type Prefetcher struct {
	config Config

	ending  context.Context
	end     context.CancelFunc
	running slots.Semaphore // for running tasks
	fetches slots.Semaphore // for packages that tasks wait for
	work    sync.WaitGroup

	mu     sync.Mutex // guards closed, tasks and pending
	closed bool
	tasks  map[task]bool

	waiting atomic.Int64 // the length of pending
	pending map[modproxy.Ref]*pending
}

var _ observe.Observer = (*Prefetcher)(nil)

// Stored reports which packages are cached.
type Stored interface {
	// Exists reports whether the package of a version is cached.
	Exists(ctx context.Context, v modproxy.Ref) (bool, error)
}

// Room limits the cache and the disk.
type Room interface {
	// Room returns an error unless there is room for n more bytes, without evicting cached packages if stays is set.
	Room(ctx context.Context, n int64, stays bool) error
}

// Rights compares and checks the rights of clients.
type Rights interface {
	// Rights returns a text that is the same for clients with the same rights.
	Rights(ctx context.Context) string
	// Still returns nil while the client has its rights. It returns an error afterwards, for example if its token was revoked.
	Still(ctx context.Context) error
}

// Observer counts prefetched packages.
type Observer interface {
	Prefetched()   // a package was downloaded
	PrefetchUsed() // a client requested a package that Prefetched has counted, for the first time
}

const (
	maxTasks   = 256      // running and waiting tasks
	maxRunning = 16       // running tasks
	maxFetches = 4        // packages that tasks wait for: half of the concurrent downloads, by default
	maxPending = 16 << 10 // prefetched packages that no client has requested yet; beyond, one of them leaves the count
)

// task prefetches for one version.
type task struct {
	modproxy.Ref
	rights string
}

// pending is the state of a prefetched package that is still counted.
type pending struct {
	tasks           int // tasks that wait for it
	done, requested bool
}

// New returns a Prefetcher. The caller must close it before it closes the parts in c.
func New(c Config) *Prefetcher {
	p := &Prefetcher{
		config: c, running: slots.NewSemaphore(maxRunning), fetches: slots.NewSemaphore(maxFetches),
		tasks: map[task]bool{}, pending: map[modproxy.Ref]*pending{},
	}
	p.ending, p.end = context.WithCancel(context.Background())
	return p
}

// Close ends all tasks, and waits until they have ended. No task begins afterwards.
func (p *Prefetcher) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	p.work.Wait()
}

// Requested implements [observe.Observer]. It does nothing.
func (*Prefetcher) Requested(context.Context, observe.Question) {}

// Answered implements [observe.Observer]. After a location, it starts a task that prefetches the modules that the package calls. It starts
// none if the package was cached before the request, which the location shows: it has Kept and no URL.
func (p *Prefetcher) Answered(ctx context.Context, q observe.Question, a observe.Answer) {
	if q.Kind != observe.Location || a.Err != nil || !q.Ref.IsModule() {
		return
	}
	p.requested(q.Ref)
	if !wasStored(a.Location) {
		p.begin(ctx, q.Ref)
	}
}

// wasStored reports whether a package was cached before the request for its location l, which then has no URL.
func wasStored(l modproxy.Location) bool { return l.Kept && l.URL == "" }

// begin starts the task of v for the client of ctx, unless it is running or there are too many tasks.
func (p *Prefetcher) begin(ctx context.Context, v modproxy.Ref) {
	t := task{v, p.rights(ctx)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.tasks[t] || len(p.tasks) >= maxTasks {
		return
	}
	p.tasks[t] = true
	p.work.Go(func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.tasks, t)
		}()
		p.follow(context.WithoutCancel(ctx), v)
	})
}

// track records that a package is being prefetched, unless a client has requested it before and waits. The caller must call end
// with whether the package was downloaded.
func (p *Prefetcher) track(v modproxy.Ref) (end func(done bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range p.tasks {
		if t.Ref == v {
			return func(bool) {}
		}
	}
	one := p.pending[v]
	if one == nil {
		one = &pending{}
		if len(p.pending) >= maxPending {
			for other := range p.pending {
				delete(p.pending, other)
				break
			}
		}
		p.pending[v] = one
		p.waiting.Store(int64(len(p.pending)))
	}
	one.tasks++
	return func(done bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		one.tasks--
		first := done && !one.done
		one.done = one.done || done
		if p.pending[v] == one && (one.done && one.requested || !one.done && one.tasks == 0) {
			p.forget(v)
		}
		if !first {
			return
		}
		p.config.Observer.Prefetched()
		if one.requested {
			p.config.Observer.PrefetchUsed()
		}
	}
}

// requested records that a client has requested v.
func (p *Prefetcher) requested(v modproxy.Ref) {
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.pending[v]
	switch {
	case one == nil:
	case !one.done:
		one.requested = true
	default:
		p.forget(v)
		p.config.Observer.PrefetchUsed()
	}
}

// forget ends the counting of v. It is called with mu held.
func (p *Prefetcher) forget(v modproxy.Ref) {
	delete(p.pending, v)
	p.waiting.Store(int64(len(p.pending)))
}
