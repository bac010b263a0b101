package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// question is a key of what is asked for.
type question interface {
	comparable
	ref() store.Ref    // the record of the answer
	registry() string  // hostname of the registry that answers
	publisher() string // a part of the registry that shares turns
	event(kind Kind, took time.Duration, err error) Event
	wrap(op string, err error) error // adds the question to err, once
}

// background is work that goes on when nobody waits for it any more.
type background struct {
	ending      context.Context // ends all of it
	unwanted    context.Context // ends what no client waits for
	endUnwanted context.CancelFunc
	limit       int // of what runs at the same time

	mu      sync.Mutex
	running int
	of      map[string]int // running, by the asker
	closed  bool
	work    sync.WaitGroup
}

// start runs work in a goroutine, unless there is too much or b is closed. One asker never has more work under
// way than there is room left for; the empty one has no such bound.
func (b *background) start(asker string, work func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errClosing
	case b.running >= b.limit, asker != "" && b.of[asker] >= b.limit-b.running:
		return retrySoon(fmt.Errorf("%d questions for upstream are waiting already", b.running))
	}
	b.running++
	b.of[asker]++
	b.work.Go(func() {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.running--
			if b.of[asker]--; b.of[asker] == 0 {
				delete(b.of, asker)
			}
		}()
		work()
	})
	return nil
}

func newBackground(limit int) (b *background, end context.CancelFunc) {
	ending, end := context.WithCancel(context.Background())
	unwanted, endUnwanted := context.WithCancel(ending)
	return &background{ending: ending, unwanted: unwanted, endUnwanted: endUnwanted, limit: limit, of: map[string]int{}}, end
}

// closeAll waits for what goes on, and ends it by end when ctx ends, which is an error.
func closeAll(ctx context.Context, end func(), all ...*background) error {
	defer end()
	idle := make(chan struct{})
	for _, b := range all {
		b.close()
	}
	go func() {
		for _, b := range all {
			b.work.Wait()
		}
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	end()
	select {
	case <-idle:
	case <-time.After(closeGrace):
	}
	return fmt.Errorf("work of the cache was ended before it was done: %w", ctx.Err())
}

func (b *background) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// detach returns a context with the values of ctx that ends after timeout, or with the background, but not with ctx.
func (b *background) detach(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := b.untilEnd(ctx)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, func() {
		cancel()
		end()
	}
}

// untilEnd is detach without a timeout.
func (b *background) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(b.unwanted, func() {
		if b.ends(ctx) {
			cancel()
		}
	})
	stopLate := context.AfterFunc(b.ending, cancel)
	return ctx, func() {
		stop()
		stopLate()
		cancel()
	}
}

// ends reports whether work with ctx is to end.
func (b *background) ends(ctx context.Context) bool {
	return b.ending.Err() != nil || b.unwanted.Err() != nil && modproxy.IsBackground(ctx)
}

// flights shares one call for each key among all that want its result. Unlike in package singleflight, a caller that
// stops waiting leaves nothing behind, and a panic ends the call, not the process. A call that was begun in the background
// is a client's as soon as one wants its result.
type flights[K comparable, V any] struct {
	mu    sync.Mutex
	calls map[K]*call[V]
}

// call is one call under way; value and err are there when done is closed.
type call[V any] struct {
	waiters
	ctx   context.Context // of the work
	began time.Time
	met   modproxy.Trouble
	told  chan struct{} // closed when coming is there, if ever
	done  chan struct{}
	value V
	err   error

	coming V // what tell was given
}

// join returns the call for k that is under way, or starts one. The work begins by looking whether it is done already:
// the call before may have ended a moment ago. Its context has the values of ctx.
func (f *flights[K, V]) join(
	ctx context.Context, b *background, asker string, k K, work func(context.Context) (V, error),
) (*call[V], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.calls[k]; ok {
		c.waitedForBy(ctx)
		return c, nil
	}
	c := &call[V]{waiters: waiters{left: time.Now()}, began: time.Now(), told: make(chan struct{}), done: make(chan struct{})}
	by := ctx
	if ctx = context.WithoutCancel(ctx); modproxy.IsBackground(by) {
		ctx = modproxy.InBackground(ctx) // until a client joins, or by is brought forward
	}
	c.ctx = context.WithValue(modproxy.WithTrouble(ctx, &c.met), waitersKey{}, &c.waiters)
	err := b.start(asker, func() {
		defer close(c.done)
		defer func() {
			if p := recover(); p != nil {
				c.err = modproxy.Fault(p)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.calls, k)
		}()
		c.value, c.err = work(c.ctx)
	})
	if err != nil {
		return nil, err
	}
	c.waitedForBy(by)
	if f.calls == nil {
		f.calls = make(map[K]*call[V])
	}
	f.calls[k] = c
	return c, nil
}

// waiters are those that wait for a call.
type waiters struct {
	mu   sync.Mutex
	all  []context.Context // of each
	left time.Time         // when the last one left, or the call began
}

type waitersKey struct{}

// wait counts the caller of ctx until leave is called, which does nothing the second time.
func (w *waiters) wait(ctx context.Context) (leave func()) {
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

// unwantedFor returns for how long nobody has waited for the call that ctx is of. Where a client did once, only clients count.
func unwantedFor(ctx context.Context) time.Duration {
	w, ok := ctx.Value(waitersKey{}).(*waiters)
	if !ok {
		return 0
	}
	behind := modproxy.IsBackground(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, by := range w.all {
		if behind || !modproxy.IsBackground(by) {
			return 0
		}
	}
	return time.Since(w.left)
}

// waitedForBy has c brought forward when it is in the background and ctx is not, now or later.
func (c *call[V]) waitedForBy(ctx context.Context) {
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

// tell gives those that wait for the call of k what is known of its value, which goes on. The call itself does, once.
func (f *flights[K, V]) tell(k K, coming V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[k]
	c.coming = coming
	close(c.told)
}

func (f *flights[K, V]) underWay() map[K]*call[V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

func (f *flights[K, V]) has(k K) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[k] != nil
}

// within waits for the call until limit has passed, or ctx ends. The error is then a [modproxy.RetryLater].
func (c *call[V]) within(ctx context.Context, limit time.Duration) (V, error) {
	defer c.wait(ctx)()
	var why error
	select {
	case <-c.done:
		return c.value, c.err
	case <-time.After(limit):
		why = errors.New("upstream has not answered within " + limit.String() + "; the request continues")
		if err := c.met.Last(); err != nil {
			why = fmt.Errorf("%w; it last failed with: %w", why, err)
		}
	case <-ctx.Done():
		why = ctx.Err()
	}
	var none V
	return none, retrySoon(why)
}
