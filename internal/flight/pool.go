package flight

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// ErrClosed is the error of a call that a closed [Pool] does not start. It is a [modproxy.ErrUnavailable].
var ErrClosed = fmt.Errorf("%w: modproxy is shutting down", modproxy.ErrUnavailable)

// Pool runs work that no caller needs to wait for, and ends it when the program stops. It is safe for concurrent use.
//
// To stop it, call [Pool.Stop], then [Pool.Wait], and [Pool.End] if the work does not end by itself.
type Pool struct {
	limit         int             // of running work; zero: no limit
	ending        context.Context // ends all work
	end           context.CancelFunc
	unwanted      context.Context // ends background work
	endBackground context.CancelFunc

	mu      sync.Mutex
	running int
	of      map[string]int // running, by owner
	stopped bool
	work    sync.WaitGroup
}

// NewPool returns a pool that runs at most limit pieces of work at a time. A limit of zero means any number.
func NewPool(limit int) *Pool {
	p := &Pool{limit: limit, of: map[string]int{}}
	p.ending, p.end = context.WithCancel(context.Background())
	p.unwanted, p.endBackground = context.WithCancel(p.ending)
	return p
}

// Go runs work in a goroutine of its own. If the pool has a limit, work does not start if its owner already has as much running
// work as the pool has free places: one owner takes at most half of an idle pool. This bound does not apply to the empty owner, or
// to a pool without a limit. A nil Pool runs everything.
//
// Errors: [ErrClosed] after Stop; a [modproxy.RetryLater] if too much work is running, in all or of the owner.
func (p *Pool) Go(owner string, work func()) error {
	if p == nil {
		go work()
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return ErrClosed
	case p.limit > 0 && (p.running >= p.limit || owner != "" && p.of[owner] >= p.limit-p.running):
		err := fmt.Errorf("%d other requests to registries are in progress", p.running)
		return &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: err}
	}
	p.running++
	p.of[owner]++
	p.work.Go(func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.running--
			if p.of[owner]--; p.of[owner] == 0 {
				delete(p.of, owner)
			}
		}()
		work()
	})
	return nil
}

// Detach returns a context with the values of ctx. It does not end with ctx. It ends after timeout, unless that is zero, and
// with the pool: see [Pool.End], and [Pool.EndBackground] for a ctx in the background. A nil Pool never ends it.
func (p *Pool) Detach(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	detached, end := context.WithCancel(context.WithoutCancel(ctx))
	cancel := func() { end() }
	if p != nil {
		stopUnwanted := context.AfterFunc(p.unwanted, func() {
			if p.Ends(detached) {
				end()
			}
		})
		stopEnding := context.AfterFunc(p.ending, end)
		cancel = func() {
			stopUnwanted()
			stopEnding()
			end()
		}
	}
	if timeout == 0 {
		return detached, cancel
	}
	timed, stop := context.WithTimeout(detached, timeout)
	return timed, func() {
		stop()
		cancel()
	}
}

// Context returns a context without values that ends with the pool.
func (p *Pool) Context() context.Context { return p.ending }

// Ends reports whether End was called, or EndBackground if ctx is in the background. Work with ctx should then end.
func (p *Pool) Ends(ctx context.Context) bool {
	return p.ending.Err() != nil || p.unwanted.Err() != nil && modproxy.IsBackground(ctx)
}

// Stop makes further calls of Go return [ErrClosed]. It does not end running work.
func (p *Pool) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// Wait waits until no work is running. The error is the cause of ctx if ctx ended before. Call Stop first.
func (p *Pool) Wait(ctx context.Context) error {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		p.work.Wait()
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// End ends the contexts of all work.
func (p *Pool) End() { p.end() }

// EndBackground ends the contexts of work in the background, now and later.
func (p *Pool) EndBackground() { p.endBackground() }
