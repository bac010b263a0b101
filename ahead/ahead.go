// Package ahead is a registry that has brought what a client is about to ask for: the modules that a package calls
// which the client was told of, those that these call, and so on.
//
// Clients install one module after the other: they see what a package calls when they have it, and ask for the first
// of that. When a client was told where a package is that was not kept, [Registry] waits for the package in the
// background, reads it as the client does, and asks the same questions for the client, of all that is called at once. A
// package in which no line looks like the beginning of a call, as in most, is not read further.
//
// Invariant: what a client gets does not depend on what was read ahead, but for when it gets it. Everything is asked
// with the context of the client, so that nothing is brought that it may not have, and nothing after its token was
// revoked; of layers that tell nobody what they refuse, so that nobody is said to have asked. What cannot be had, read
// or resolved is left to the client, which asks and is told why.
//
// What is followed begins at the root of a package that a client was told of, as it is not known which directory of it
// a source names; of those that are called that is known. Calls of local directories are followed, those of registries
// that do not go through this proxy are not, nor are sources that are no module of a registry, and providers.
//
// # Bounds
//
// The same version is followed once at a time for all clients with the same rights, which 200 of them cause that
// install it at the same moment. Versions beyond maxTasks are not. One brings maxPackages packages and asks for the
// versions of maxModules modules, as far as maxDepth calls lead to each other, within maxTime; calls in a circle, or a
// thousand of them, end there. All of them together wait for maxFetches packages at a time. Before a package is fetched
// there must be room for the largest that is allowed, beside all that is kept: where the store or the disk is full,
// nothing is read ahead, nor evicted for it.
package ahead

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// Registry gives the answers of Next, and reads ahead. Its fields are set before the first question. It is safe for
// concurrent use.
type Registry struct {
	Next     modproxy.Registry
	Quiet    modproxy.Registry // answers the same for what is read ahead, and tells nobody what it refuses
	Kept     Kept
	Room     Room
	Largest  int64 // bytes of a package
	Routes   closure.Routes
	Reader   *tfconfig.Reader
	Rights   Rights   // nil: those of the groups of a client
	Observer Observer // may be nil

	once    sync.Once
	ending  context.Context
	end     context.CancelFunc
	turns   chan struct{} // a task has one
	fetches chan struct{} // a package that is waited for has one
	work    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	busy   map[task]bool

	waiting atomic.Int64 // how many are in brought
	brought map[modproxy.Ref]*arrival
}

var _ modproxy.Registry = (*Registry)(nil)

// Kept knows what is kept.
type Kept interface {
	// Has reports whether the package of a version is kept.
	Has(ctx context.Context, v modproxy.Ref) (bool, error)
}

// Room knows what there is room for.
type Room interface {
	// Room returns an error unless there is room for n bytes more, beside what is kept if that is to stay.
	Room(ctx context.Context, n int64, stays bool) error
}

// Rights tells what clients may have.
type Rights interface {
	// Rights returns a text that is the same for clients that may have the same.
	Rights(ctx context.Context) string
	// Still returns why a client may have nothing any more, such as that its token was revoked, or nil.
	Still(ctx context.Context) error
}

// Observer is told what becomes of what is read ahead.
type Observer interface {
	ReadAhead()     // a package was brought
	ReadAheadUsed() // a client has asked for one, for the first time
}

const (
	maxTasks   = 256      // that are under way or wait
	maxRunning = 16       // under way
	maxFetches = 4        // packages that are waited for: half of what is fetched at a time, as a rule
	maxBrought = 16 << 10 // that no client has asked for yet, of which that is counted; beyond, any is forgotten
)

// task is a version that is followed.
type task struct {
	modproxy.Ref
	rights string
}

// arrival is what has become of a package that is read ahead.
type arrival struct {
	tasks       int // that wait for it
	came, asked bool
}

func (r *Registry) start() {
	r.ending, r.end = context.WithCancel(context.Background())
	r.turns, r.fetches = make(chan struct{}, maxRunning), make(chan struct{}, maxFetches)
	r.busy, r.brought = map[task]bool{}, map[modproxy.Ref]*arrival{}
}

// Close ends what goes on. Next and Quiet are closed after it.
func (r *Registry) Close() {
	r.once.Do(r.start)
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
	r.work.Wait()
}

// Versions returns the answer of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns the answer of Next. What the package calls is read ahead, unless the package was kept before the
// question.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	l, err := r.Next.Location(ctx, v)
	if err == nil && !v.IsProvider() {
		r.asked(v)
		if !keptBefore(l) {
			r.begin(ctx, v)
		}
	}
	return l, err
}

// keptBefore reports whether a package was kept before the question for its location l, which has no URL then.
func keptBefore(l modproxy.Location) bool { return l.Kept && l.URL == "" }

// Package returns the answer of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return r.Next.Package(ctx, v)
}

// begin has v followed for the client of ctx, unless it is, or too much is.
func (r *Registry) begin(ctx context.Context, v modproxy.Ref) {
	r.once.Do(r.start)
	t := task{v, r.rights(ctx)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.busy[t] || len(r.busy) >= maxTasks {
		return
	}
	r.busy[t] = true
	r.work.Go(func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.busy, t)
		}()
		r.follow(context.WithoutCancel(ctx), v)
	})
}

// expect notes that a package is being read ahead, unless a client has asked for it before and waits. ended is called with
// whether it was brought.
func (r *Registry) expect(v modproxy.Ref) (ended func(came bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.busy {
		if t.Ref == v {
			return func(bool) {}
		}
	}
	a := r.brought[v]
	if a == nil {
		a = &arrival{}
		if len(r.brought) >= maxBrought {
			for one := range r.brought {
				delete(r.brought, one)
				break
			}
		}
		r.brought[v] = a
		r.waiting.Store(int64(len(r.brought)))
	}
	a.tasks++
	return func(came bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		a.tasks--
		first := came && !a.came
		a.came = a.came || came
		if r.brought[v] == a && (a.came && a.asked || !a.came && a.tasks == 0) {
			r.forget(v)
		}
		if !first || r.Observer == nil {
			return
		}
		r.Observer.ReadAhead()
		if a.asked {
			r.Observer.ReadAheadUsed()
		}
	}
}

// asked notes that a client has asked for v.
func (r *Registry) asked(v modproxy.Ref) {
	if r.waiting.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.brought[v]
	switch {
	case a == nil:
	case !a.came:
		a.asked = true
	default:
		r.forget(v)
		if r.Observer != nil {
			r.Observer.ReadAheadUsed()
		}
	}
}

func (r *Registry) forget(v modproxy.Ref) {
	delete(r.brought, v)
	r.waiting.Store(int64(len(r.brought)))
}
