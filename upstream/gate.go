package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fair"
	"github.com/modproxy/modproxy/fetch"
)

// gate is what stands before the questions for one service of a registry: it keeps to
// the registry's wishes and to its own measure, and spares a registry in trouble.
//
// It has a door for the registry, and one for each namespace in trouble. What one
// namespace fails with says nothing about others, unless two fail and none succeeds.
type gate struct {
	host  string        // of the registry, for people
	turns *fair.Turns   // by who asks
	heavy chan struct{} // of those that have a turn, the ones with a large answer
	rate  *rate.Limiter

	mu      sync.Mutex
	whole   door
	spaces  map[string]*door // of namespaces that failed last
	failing []string         // namespaces that failed since the last success, two at most
	late    []*try           // under way without a turn, the oldest first
}

const (
	// Questions to one registry that are under way at a time, and in a second.
	gateTurns = 16
	gateRate  = 100
	// Of these, those of one who asks, and those that wait.
	gateShare = gateTurns * 3 / 4
	gateQueue = 1024
	// Large answers of one registry that are read at a time.
	gateHeavy = 2
	// Questions whose answers are late, beside those that have a turn. Together those
	// of one service are no more than egress makes connections.
	gateLate = 48
	// Namespaces in trouble that are remembered.
	gateSpaces = 1024
)

var errLeftAlone = errors.New("it wants to be left alone for now")

func newGate(perSecond int) *gate {
	if perSecond == 0 {
		perSecond = gateRate
	}
	return &gate{
		host:   "the registry",
		turns:  fair.New(gateTurns, gateShare, 0, gateQueue),
		heavy:  make(chan struct{}, gateHeavy),
		rate:   rate.NewLimiter(rate.Limit(perSecond), perSecond),
		spaces: map[string]*door{},
	}
}

// gate is the one of a service. What is wrong with the providers of a host, or asked
// of those who want them, is nothing to those who want modules; but together they are
// no more than the host is asked.
func (c *Client) gate(s serviceOf) *gate {
	if g, ok := c.gates.Get(s); ok {
		return g
	}
	g := newGate(c.cfg.Hosts[s.host].Rate)
	g.host = s.host
	if s.service != modulesV1 {
		modules := c.gate(serviceOf{s.host, modulesV1})
		g.turns, g.rate = modules.turns, modules.rate
	}
	if have, ok, _ := c.gates.PeekOrAdd(s, g); ok {
		return have
	}
	return g
}

// doors are those that questions about a namespace pass. It is called with mu held.
func (g *gate) doors(namespace string) []*door {
	doors := []*door{&g.whole}
	if d := g.spaces[namespace]; d != nil {
		doors = append(doors, d)
	}
	return doors
}

// pass lets t pass, unless a door is closed. Where one is shut t is its trial, whose
// answer is late sooner.
func (g *gate) pass(t *try) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.began, t.late = time.Now(), lateAfter*3/4+rand.N(lateAfter/2)
	doors := g.doors(t.namespace)
	if slices.ContainsFunc(doors, func(d *door) bool { return d.closed(t.began) }) {
		return false
	}
	for _, d := range doors {
		if d.shut {
			d.trial = t
			t.late = min(t.late, 2*d.pause(t.began))
		}
	}
	return true
}

// wait waits until no door is closed. It is an error when that is after deadline, or
// when the trouble has lasted for so long that it will hardly end meanwhile.
func (g *gate) wait(ctx context.Context, t *try, deadline time.Time) error {
	for {
		now := time.Now()
		g.mu.Lock()
		doors := g.doors(t.namespace)
		i := slices.IndexFunc(doors, func(d *door) bool { return d.closed(now) })
		if i < 0 {
			g.mu.Unlock()
			return nil
		}
		d := doors[i]
		changed, next, refusal := d.changed, d.next, d.refusal(g.host, now)
		if d.trial != nil {
			next = deadline
		} else if len(doors) > 1 {
			next = next.Add(doorPause / 5) // the question of another namespace says more about the registry
		}
		g.mu.Unlock()
		if next.After(deadline) {
			return refusal
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-changed:
			timer.Stop()
			if g.lasting(t.namespace) {
				return refusal
			}
		case <-timer.C:
			if next.Equal(deadline) {
				return refusal
			}
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", refusal, context.Cause(ctx))
		}
	}
}

// lasting reports whether the trouble of a registry, or of the namespace, has lasted
// for so long that it will hardly end while anybody waits.
func (g *gate) lasting(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.doors(namespace), func(d *door) bool {
		return d.shut && time.Since(d.since) > 2*patience
	})
}

// quit is the end of t that says nothing about the registry.
func (g *gate) quit(t *try) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end(t)
	for _, d := range g.doors(t.namespace) {
		if d.trial == t {
			d.close(time.Now(), time.Now())
		}
	}
}

// end is the end of t. It is called with mu held.
func (g *gate) end(t *try) {
	t.over = true
	if i := slices.Index(g.late, t); i >= 0 {
		g.late = slices.Delete(g.late, i, i+1)
	}
}

// passes reports whether err, the outcome of a question, is trouble that passes, and
// from when on it is worth while to ask again.
func passes(err error) (passes bool, after time.Time) {
	var later *modproxy.RetryLater
	if errors.As(err, &later) {
		return true, later.After
	}
	return errors.Is(err, modproxy.ErrUnavailable) && trouble(err) != nil, time.Time{}
}

// done takes the outcome of t into account. Only what says that the registry is in
// trouble is a failure: not that it does not have or allow something, or that it
// cannot make sense of a question.
func (g *gate) done(t *try, err error) {
	if errors.Is(err, context.Canceled) {
		g.quit(t)
		return
	}
	now := time.Now()
	why := trouble(err)
	var later *modproxy.RetryLater
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end(t)
	switch {
	case errors.As(err, &later): // its own wish
		for _, d := range g.concerned(t, err) {
			d.wish(later.After, now)
		}
	case !errors.Is(err, modproxy.ErrUnavailable) || why == nil:
		g.failing = nil
		if g.whole.shut { // and the namespaces because of that
			for namespace := range g.spaces {
				g.open(namespace, now)
			}
		}
		g.open(t.namespace, now)
		g.whole.open(now)
	default:
		g.fail(t, err, why, now)
	}
}

// open opens the door of a namespace. It is called with mu held.
func (g *gate) open(namespace string, now time.Time) {
	d := g.spaces[namespace]
	if d == nil || d.wished(now) {
		return
	}
	d.open(now)
	delete(g.spaces, namespace)
}

// fail counts a failure. It is called with mu held.
func (g *gate) fail(t *try, err, why error, now time.Time) {
	for _, d := range g.concerned(t, err) {
		d.fail(t, why, now)
	}
}

// overdue is t having taken long: it gives up its turn, and when too many have, the
// oldest is given up. If its answer has not begun, or others wait for it as a trial, it is
// late: a failure, until the answer is there.
func (g *gate) overdue(t *try) (late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.over {
		return false
	}
	if g.late = append(g.late, t); len(g.late) > gateLate {
		g.late[0].cancel(errLate)
		g.late = slices.Delete(g.late, 0, 1)
	}
	if t.begun.Load() && !slices.ContainsFunc(g.doors(t.namespace), func(d *door) bool { return d.trial == t }) {
		return false
	}
	g.fail(t, errLate, errSlow, time.Now())
	return true
}

// concerned are the doors that err, the trouble of t, is about. It is called with mu
// held.
func (g *gate) concerned(t *try, err error) []*door {
	d := g.spaces[t.namespace]
	if d == nil {
		for namespace, other := range g.spaces {
			if len(g.spaces) < gateSpaces {
				break
			}
			other.close(t.began, t.began) // any one; those that wait look again
			delete(g.spaces, namespace)
		}
		d = &door{}
		g.spaces[t.namespace] = d
	}
	if len(g.failing) < 2 && !slices.Contains(g.failing, t.namespace) {
		g.failing = append(g.failing, t.namespace)
	}
	if len(g.failing) > 1 || ofAll(err) || g.whole.trial == t {
		return []*door{&g.whole, d}
	}
	return []*door{d}
}

// ofAll reports whether err, the outcome of one question, would have been that of any.
func ofAll(err error) bool {
	var a *fetch.Answered
	if errors.As(err, &a) {
		return a.Code == http.StatusTooManyRequests
	}
	return unreachable(err)
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
