package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/hedge"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
)

// gate decides when a question for one service of a registry is sent. It shares turns among clients, prefers questions
// that clients wait for, keeps to a rate and to the registry's Retry-After, and acts as a circuit breaker while the
// registry fails.
//
// It has one outage for the registry, and one for each failing namespace. The failures of one namespace do not affect
// others, unless two namespaces fail and none succeeds.
type gate struct {
	host   string          // of the registry, for messages
	hedges bool            // see [egress.Client.Hedges]
	turns  *slots.Queue    // by client
	heavy  slots.Semaphore // slots for large answers; a question that uses one also has a turn
	side   *slots.Queue    // of modules.v1 and providers.v1, for the questions beside the protocol
	rate   *rate.Limiter
	next   *slots.Queue // the queue for the rate, by client; it has one turn

	mu      sync.Mutex
	whole   outage
	spaces  map[string]*outage // of namespaces whose last question failed
	failing []string           // namespaces that failed since the last success, two at most
	late    []*try             // tries in progress without a turn, the oldest first
}

const (
	gateTurns  = 16                // questions to one registry in progress at a time
	gateRate   = 100               // questions to one registry per second
	gateShare  = gateTurns * 3 / 4 // the most turns of one client
	gateQueue  = 1024              // questions that wait for a turn
	gateHeavy  = 2                 // large answers of one registry that are read at a time
	gateBeside = 4                 // questions beside the protocol to one registry at a time; the other turns remain for the protocol
	gateSpaces = 1024              // failing namespaces in memory
	// gateLate bounds the questions whose answers are late and that no longer have a turn. With those that have a turn, one
	// service has at most as many questions in progress as egress makes connections.
	gateLate = 48
)

func newGate(perSecond int) *gate {
	perSecond = cmp.Or(perSecond, gateRate)
	return &gate{
		host:   "the registry",
		hedges: true,
		turns:  slots.New(gateTurns, gateShare, 0, gateQueue),
		heavy:  slots.NewSemaphore(gateHeavy),
		side:   slots.New(gateBeside, gateBeside, 0, gateQueue),
		rate:   rate.NewLimiter(rate.Limit(perSecond), perSecond),
		next:   slots.New(1, 1, 0, gateQueue),
		spaces: map[string]*outage{},
	}
}

// gate returns the gate of a service. The services of a host share turns, the rate and the queue for it, but not
// outages.
func (c *Client) gate(s serviceOf) *gate {
	if g, ok := c.gates.Get(s); ok {
		return g
	}
	g := newGate(c.cfg.Hosts[s.host].Rate)
	g.host, g.hedges = s.host, c.cfg.Egress.Hedges()
	if s.service != modulesV1 {
		modules := c.gate(serviceOf{s.host, modulesV1})
		g.turns, g.rate, g.next = modules.turns, modules.rate, modules.next
	}
	return c.gates.GetOrAdd(s, g, memory.Forever, 0)
}

// beside waits until a question beside the protocol may be sent. The caller calls leave when the answer is complete.
func (g *gate) beside(ctx context.Context) (leave func(), err error) {
	turn, err := g.side.Await(ctx, "", modproxy.BroughtForward(ctx))
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", modproxy.ErrUnavailable, errBusy, err)
	}
	return turn.Give, nil
}

// pace waits for the rate. Clients take turns, so that a client with many questions does not delay another client's
// few. Background questions leave a quarter of the burst to clients.
func (g *gate) pace(ctx context.Context) error {
	for modproxy.IsBackground(ctx) {
		lack := 1 + float64(g.rate.Burst()/4) - g.rate.Tokens()
		if lack <= 0 {
			break
		}
		select {
		case <-time.After(time.Duration(lack / float64(g.rate.Limit()) * float64(time.Second))):
		case <-modproxy.BroughtForward(ctx):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	turn, err := g.next.Await(ctx, modproxy.AskerOf(ctx).Name, modproxy.BroughtForward(ctx))
	if err != nil {
		return err
	}
	defer turn.Give()
	return g.rate.Wait(ctx)
}

// outages returns the outages that concern a namespace. The caller holds mu, as for all methods whose comment does not
// say that they take mu.
func (g *gate) outages(namespace string) []*outage {
	outages := []*outage{&g.whole}
	if o := g.spaces[namespace]; o != nil {
		outages = append(outages, o)
	}
	return outages
}

// pass reports whether t may be sent now. During an outage t becomes the trial, and its answer counts as late sooner.
// It takes mu.
func (g *gate) pass(t *try) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.began, t.late = time.Now(), hedge.Late()
	outages := g.outages(t.namespace)
	if slices.ContainsFunc(outages, func(o *outage) bool { return o.holds(t.began) }) {
		return false
	}
	for _, o := range outages {
		if o.on {
			o.trial = t
			t.late = min(t.late, 2*o.pause(t.began))
		}
	}
	return true
}

// wait waits until no outage holds t back. It fails if that is later than deadline, or if the outage is long (see
// lasting). It takes mu.
func (g *gate) wait(ctx context.Context, t *try, deadline time.Time) error {
	for {
		now := time.Now()
		g.mu.Lock()
		outages := g.outages(t.namespace)
		i := slices.IndexFunc(outages, func(o *outage) bool { return o.holds(now) })
		if i < 0 {
			g.mu.Unlock()
			return nil
		}
		o := outages[i]
		changed, next, refusal := o.changed, o.next, o.refusal(g.host, now)
		if o.trial != nil {
			next = deadline
		} else if len(outages) > 1 {
			next = next.Add(outagePause / 5) // a question of another namespace says more about the registry
		}
		g.mu.Unlock()
		if next.After(deadline) {
			return refusal
		}
		select {
		case <-changed:
			if g.lasting(t.namespace) {
				return refusal
			}
		case <-time.After(next.Sub(now)):
			if next.Equal(deadline) {
				return refusal
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", refusal, context.Cause(ctx))
		}
	}
}

// lasting reports whether an outage has lasted so long that it will hardly end while a client waits. It takes mu.
func (g *gate) lasting(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.outages(namespace), func(o *outage) bool {
		return o.on && time.Since(o.since) > 2*answerWithin
	})
}

// done records the outcome of t. It counts a failure only if err shows that the registry is unavailable. A missing or
// denied module, an invalid question and a cancelled try are not failures. It takes mu.
func (g *gate) done(t *try, err error) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	t.over = true
	g.late = slices.DeleteFunc(g.late, func(late *try) bool { return late == t })
	why, _ := trouble(err)
	var later *modproxy.RetryLater
	switch {
	case errors.Is(err, context.Canceled): // says nothing about the registry
		for _, o := range g.outages(t.namespace) {
			if o.trial == t {
				o.wait(now, now)
			}
		}
	case errors.As(err, &later): // the registry asked for a pause
		for _, o := range g.concerned(t, err) {
			o.leaveAlone(later.After, now)
		}
	case !errors.Is(err, modproxy.ErrUnavailable) || why == nil:
		g.succeed(t.namespace, now)
	default:
		for _, o := range g.concerned(t, err) {
			o.fail(t, why, now)
		}
	}
}

// succeed ends the outage of a namespace and that of the registry. The end of the registry's outage ends those of all
// namespaces.
func (g *gate) succeed(namespace string, now time.Time) {
	g.failing = nil
	for name, o := range g.spaces {
		if (name == namespace || g.whole.on) && o.end(now) {
			delete(g.spaces, name)
		}
	}
	g.whole.end(now)
}

// overdue records that t takes long. If too many tries are late, it cancels the oldest. It reports whether t counts as
// a failure until its answer arrives: its answer has not begun, or t is a trial that others wait for. It takes mu.
func (g *gate) overdue(t *try) (late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.over {
		return false
	}
	if g.late = append(g.late, t); len(g.late) > gateLate {
		g.late[0].cancel(errLate)
		g.late = g.late[1:]
	}
	if t.begun.Load() && !slices.ContainsFunc(g.outages(t.namespace), func(o *outage) bool { return o.trial == t }) {
		return false
	}
	for _, o := range g.concerned(t, errLate) {
		o.fail(t, errSlow, time.Now())
	}
	return true
}

// concerned returns the outages that err, the failure of t, counts for.
func (g *gate) concerned(t *try, err error) []*outage {
	o := g.spaces[t.namespace]
	if o == nil {
		for namespace, other := range g.spaces {
			if len(g.spaces) < gateSpaces {
				break
			}
			other.wait(t.began, t.began) // any namespace; its waiting questions check again
			delete(g.spaces, namespace)
		}
		o = &outage{}
		g.spaces[t.namespace] = o
	}
	if len(g.failing) < 2 && !slices.Contains(g.failing, t.namespace) {
		g.failing = append(g.failing, t.namespace)
	}
	if _, ofAll := trouble(err); len(g.failing) > 1 || ofAll || g.whole.trial == t {
		return []*outage{&g.whole, o}
	}
	return []*outage{o}
}

// ordinaryAnswer is the size in bytes up to which any number of answers is read at once. Most answers have about 10
// KiB.
const ordinaryAnswer = 512 << 10

// receive reads an answer. Decoding a large answer takes several times its size in memory, so large answers wait for a
// slot, which leave returns. It needs no lock.
func (g *gate) receive(ctx context.Context, answer io.Reader) (document []byte, leave func(), err error) {
	var all bytes.Buffer
	n, err := all.ReadFrom(io.LimitReader(answer, ordinaryAnswer))
	if err != nil || n < ordinaryAnswer {
		return all.Bytes(), func() {}, err
	}
	leave, err = g.heavy.Take(ctx)
	if err != nil {
		return nil, func() {}, fmt.Errorf("%w: %d other large answers of this registry are being read: %w",
			modproxy.ErrUnavailable, gateHeavy, err)
	}
	_, err = all.ReadFrom(answer)
	return all.Bytes(), leave, err
}
