// Package flight shares one running call between all callers that want its result.
//
//	group := flight.Group[string, Answer]{Timeout: time.Minute}
//	call, err := group.Join(ctx, key, func(ctx context.Context) (Answer, error) { … })
//	if err != nil { … }
//	answer, err := call.Wait(ctx)
//
// A [Pool] bounds the number of calls, and ends them when the program stops. A [Memo] also remembers results.
//
// Invariants:
//
//   - A [Group] runs at most one call for each key at a time.
//   - A call outlives its callers. Its context has the values of the first caller's context, and does not end with it. Later callers
//     receive the result of a call with these values. If the result depends on the client, the key must contain the client.
//   - A call that a background caller started is in the background (see [modproxy.InBackground]) until a foreground caller joins
//     it, or one of its callers is brought forward.
//   - A panic of the call of a [Group] becomes its error ([modproxy.Fault]). A panic in the function of a [Memo], or in work that the
//     caller gives to [Pool.Go] itself, is not caught.
package flight

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// Group shares one call for each key. Its exported fields are set before the first use. The zero value is ready. It is safe for
// concurrent use.
type Group[K comparable, V any] struct {
	// Pool runs the calls. If it is nil, their number has no bound, and nothing ends them but Timeout.
	Pool *Pool
	// Timeout ends the context of a call. If it is set, Pool.End and Pool.EndBackground end the context, too. If it is zero, the
	// context never ends: the call must derive contexts with [Pool.Detach] for the parts of its work that may be ended.
	Timeout time.Duration
	// PerClient is set if clients (see [modproxy.ClientOf]) share the places of Pool.
	PerClient bool

	mu    sync.Mutex
	calls map[K]*Call[V]
}

// Call is one running or finished call.
type Call[V any] struct {
	callers
	ctx   context.Context // of the work
	began time.Time
	last  modproxy.LastError

	published chan struct{} // closed when partial is set
	partial   V
	done      chan struct{} // closed when value and err are set
	value     V
	err       error
}

// Join returns the running call for k, or starts one. The caller may then wait for it. A new call should first check whether
// its work is still needed, because an earlier call may have ended a moment before. Errors are those of [Pool.Go].
func (g *Group[K, V]) Join(ctx context.Context, k K, work func(context.Context) (V, error)) (*Call[V], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.calls[k]; ok {
		c.promoteFor(ctx)
		return c, nil
	}
	c := newCall[V](ctx)
	owner := ""
	if g.PerClient {
		owner = modproxy.ClientOf(ctx).Name
	}
	if err := g.Pool.Go(owner, func() { g.run(k, c, work) }); err != nil {
		return nil, err
	}
	c.promoteFor(ctx)
	if g.calls == nil {
		g.calls = make(map[K]*Call[V])
	}
	g.calls[k] = c
	return c, nil
}

func newCall[V any](by context.Context) *Call[V] {
	now := time.Now()
	c := &Call[V]{callers: callers{left: now}, began: now, published: make(chan struct{}), done: make(chan struct{})}
	ctx := context.WithoutCancel(by)
	if modproxy.IsBackground(by) {
		ctx = modproxy.InBackground(ctx) // a mark of its own, which promoteFor removes
	}
	c.ctx = context.WithValue(modproxy.WithLastError(ctx, &c.last), callersKey{}, &c.callers)
	return c
}

func (g *Group[K, V]) run(k K, c *Call[V], work func(context.Context) (V, error)) {
	defer close(c.done)
	defer func() {
		if p := recover(); p != nil {
			c.err = modproxy.Fault(p)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.calls, k)
	}()
	ctx := c.ctx
	if g.Timeout > 0 {
		detached, cancel := g.Pool.Detach(ctx, g.Timeout)
		defer cancel()
		ctx = detached
	}
	c.value, c.err = work(ctx)
}

// Publish gives the callers of the running call for k a part of its result, before the call ends. Only the work of the call may use
// Publish, at most once. The callers wait for [Call.Published] and read [Call.Partial].
func (g *Group[K, V]) Publish(k K, partial V) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.calls[k]
	c.partial = partial
	close(c.published)
}

// Running returns the running calls.
func (g *Group[K, V]) Running() map[K]*Call[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.calls)
}

// IsRunning reports whether a call for k is running now. The call may end before the caller uses the answer.
func (g *Group[K, V]) IsRunning(k K) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[k] != nil
}

// Began returns the time when the call was started.
func (c *Call[V]) Began() time.Time { return c.began }

// Done returns a channel that is closed when the call has ended.
func (c *Call[V]) Done() <-chan struct{} { return c.done }

// Result returns the result of a call. It waits until the call has ended.
func (c *Call[V]) Result() (V, error) {
	<-c.done
	return c.value, c.err
}

// Published returns a channel that is closed when the call has published a part of its result. See [Group.Publish].
func (c *Call[V]) Published() <-chan struct{} { return c.published }

// Partial returns the part of the result that the call has published. It waits until the call publishes one: wait for Published
// or Done first, because a call may end without a partial result.
func (c *Call[V]) Partial() V {
	<-c.published
	return c.partial
}

// LastError returns the last error that the call has reported with [modproxy.ReportError] during its work, or nil.
func (c *Call[V]) LastError() error { return c.last.Get() }

// Wait waits for the result. If ctx ends first, Wait returns the error of ctx. It then also passes LastError to
// [modproxy.ReportError], so that the caller can say why the call had not ended.
func (c *Call[V]) Wait(ctx context.Context) (V, error) {
	defer c.Hold(ctx)()
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		if last := c.LastError(); last != nil {
			modproxy.ReportError(ctx, last)
		}
		var none V
		return none, ctx.Err()
	}
}

// promoteFor brings the call to the foreground as soon as ctx is in the foreground.
func (c *Call[V]) promoteFor(ctx context.Context) {
	switch {
	case !modproxy.IsBackground(ctx):
		modproxy.BringForward(c.ctx)
	case modproxy.IsBackground(c.ctx):
		go func() {
			select {
			case <-modproxy.BroughtForward(ctx):
				modproxy.BringForward(c.ctx)
			case <-modproxy.BroughtForward(c.ctx):
			case <-c.done:
			}
		}()
	}
}

// callers are the callers that wait for a call.
type callers struct {
	mu   sync.Mutex
	all  []context.Context // one for each caller
	left time.Time         // when the last caller left, or the call began
}

type callersKey struct{}

// Hold counts the caller of ctx as waiting until it calls leave. Further calls of leave have no effect.
func (w *callers) Hold(ctx context.Context) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, ctx)
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.all, ctx)
		w.all = slices.Delete(w.all, i, i+1)
		w.left = time.Now()
	})
}

// UnwantedFor returns for how long no caller has waited for a call. ctx is the context of the call's work. If the call is in the
// foreground, callers in the background do not count as waiting. UnwantedFor returns zero outside a call.
func UnwantedFor(ctx context.Context) time.Duration {
	w, ok := ctx.Value(callersKey{}).(*callers)
	if !ok {
		return 0
	}
	inBackground := modproxy.IsBackground(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, by := range w.all {
		if inBackground || !modproxy.IsBackground(by) {
			return 0
		}
	}
	return time.Since(w.left)
}
