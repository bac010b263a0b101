package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
)

// gate is what stands before the questions for one registry: it keeps to the
// registry's wishes and to its own measure, and spares a registry in trouble.
type gate struct {
	turns chan struct{}
	heavy chan struct{} // of those that have a turn, the ones with a large answer
	rate  *rate.Limiter

	mu        sync.Mutex
	notBefore time.Time // the registry wants to be left alone until then
	failures  int       // in a row
	trying    bool      // after a pause one question goes ahead alone
	why       error     // of notBefore; without a word of who asked for what
}

const (
	// Questions to one registry that are under way at a time, and in a second.
	gateTurns = 16
	gateRate  = 100
	// Large answers of one registry that are read at a time.
	gateHeavy = 2
	// Failures in a row after which there is a pause, which doubles from the
	// shortest to the longest. After each pause one question tries again: a
	// registry that comes and goes is never given up.
	gateFailures = 5
	gatePause    = time.Second
	gateMaxPause = 30 * time.Second
)

func newGate(perSecond int) *gate {
	if perSecond == 0 {
		perSecond = gateRate
	}
	return &gate{
		turns: make(chan struct{}, gateTurns),
		heavy: make(chan struct{}, gateHeavy),
		rate:  rate.NewLimiter(rate.Limit(perSecond), perSecond),
	}
}

// gate is the one of host.
func (c *Client) gate(host string) *gate {
	if g, ok := c.gates.Get(host); ok {
		return g
	}
	g := newGate(c.cfg.Hosts[host].Rate)
	if have, ok, _ := c.gates.PeekOrAdd(host, g); ok {
		return have
	}
	return g
}

// enter waits for a turn, or says with a [modproxy.RetryLater] that there is none
// now. leave is called with the outcome of the question.
func (g *gate) enter(ctx context.Context) (leave func(error), err error) {
	if err := g.open(time.Now()); err != nil {
		return nil, err
	}
	if r := g.rate.Reserve(); r.Delay() > 0 {
		wait := r.Delay()
		r.Cancel()
		g.release()
		return nil, &modproxy.RetryLater{
			After: time.Now().Add(wait),
			Err:   errors.New("more questions for this registry than its rate allows"),
		}
	}
	select {
	case g.turns <- struct{}{}:
	case <-ctx.Done():
		g.release()
		return nil, fmt.Errorf("%w: %d other questions for this registry are under way: %w", modproxy.ErrUnavailable, gateTurns, context.Cause(ctx))
	}
	return func(err error) {
		<-g.turns
		g.done(err, time.Now())
	}, nil
}

// large waits for a turn to read a large answer.
func (g *gate) large(ctx context.Context) (leave func(), err error) {
	select {
	case g.heavy <- struct{}{}:
		return func() { <-g.heavy }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %d other large answers of this registry are being read: %w", modproxy.ErrUnavailable, gateHeavy, context.Cause(ctx))
	}
}

// open is an error while nobody may pass.
func (g *gate) open(now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.notBefore) {
		return &modproxy.RetryLater{After: g.notBefore, Err: g.why}
	}
	if g.failures < gateFailures {
		return nil
	}
	if g.trying {
		return &modproxy.RetryLater{After: now.Add(gatePause), Err: g.why}
	}
	g.trying = true
	return nil
}

// release gives back what open gave, without an outcome.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
}

// done takes the outcome of a question into account. Only what says that the
// registry is in trouble is a failure: not that it does not have or allow something,
// or that it cannot make sense of a question.
func (g *gate) done(err error, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
	var later *modproxy.RetryLater
	why := trouble(err)
	switch {
	case errors.As(err, &later): // its own wish
		g.notBefore, g.why = later.After, fmt.Errorf("%w: the registry wants to be left alone for now", modproxy.ErrUnavailable)
	case !errors.Is(err, modproxy.ErrUnavailable) || errors.Is(err, context.Canceled) || why == nil:
		g.failures = 0
	default:
		g.failures++
		if over := g.failures - gateFailures; over >= 0 {
			pause := gateMaxPause
			if over < 5 {
				pause = min(pause, gatePause<<over)
			}
			g.notBefore = now.Add(pause)
			g.why = fmt.Errorf("%w: %d questions in a row failed, the last because %w", modproxy.ErrUnavailable, g.failures, why)
		}
	}
}
