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

// limiter decides when a question for one service of a registry is sent. It shares slots among clients, prefers questions
// that clients wait for, keeps to a rate and to the registry's Retry-After, and acts as a circuit breaker while the
// registry fails.
//
// It has one outage for the registry, and one for each failing namespace. The failures of one namespace do not affect
// others, unless two namespaces fail and none succeeds.
type limiter struct {
	host         string          // of the registry, for messages
	hedges       bool            // see [egress.Client.Hedges]
	queue        *slots.Queue    // by client
	largeAnswers slots.Semaphore // slots for large answers; a question that uses one also has a slot of queue
	side         *slots.Queue    // of modules.v1 and providers.v1, for the questions beside the protocol
	rate         *rate.Limiter
	rateQueue    *slots.Queue // the queue for the rate, by client; it has one slot

	mu         sync.Mutex
	whole      outage
	namespaces map[string]*outage // of namespaces whose last question failed
	failing    []string           // namespaces that failed since the last success, two at most
	late       []*attempt         // attempts in progress without a slot, the oldest first
	answered   time.Time          // of the last answer
}

const (
	maxRequests     = 16                  // questions to one registry in progress at a time
	defaultRate     = 100                 // questions to one registry per second
	clientShare     = maxRequests * 3 / 4 // the most slots of one client
	maxWaiting      = 1024                // questions that wait for a slot
	maxLargeAnswers = 2                   // large answers of one registry that are read at a time
	maxSideRequests = 4                   // questions beside the protocol to one registry at a time; the other slots remain for the protocol
	maxFailing      = 1024                // failing namespaces in memory
	// maxLate bounds the questions whose answers are late and that no longer have a slot. With those that have a slot, one
	// service has at most as many questions in progress as egress makes connections.
	maxLate = 48
)

func newLimiter(perSecond int) *limiter {
	perSecond = cmp.Or(perSecond, defaultRate)
	return &limiter{
		host:         "the registry",
		hedges:       true,
		queue:        slots.New(maxRequests, clientShare, 0, maxWaiting),
		largeAnswers: slots.NewSemaphore(maxLargeAnswers),
		side:         slots.New(maxSideRequests, maxSideRequests, 0, maxWaiting),
		rate:         rate.NewLimiter(rate.Limit(perSecond), perSecond),
		rateQueue:    slots.New(1, 1, 0, maxWaiting),
		namespaces:   map[string]*outage{},
	}
}

// limiter returns the limiter of a service. The services of a host share slots, the rate and the queue for it, but not
// outages.
func (c *Client) limiter(s serviceOf) *limiter {
	if l, ok := c.limiters.Get(s); ok {
		return l
	}
	l := newLimiter(c.cfg.Hosts[s.host].Rate)
	l.host, l.hedges = s.host, c.cfg.Egress.Hedges()
	if s.service != modulesV1 {
		modules := c.limiter(serviceOf{s.host, modulesV1})
		l.queue, l.rate, l.rateQueue = modules.queue, modules.rate, modules.rateQueue
	}
	return c.limiters.GetOrAdd(s, l, memory.Forever, 0)
}

// sideRequest waits until a question beside the protocol may be sent. The caller calls leave when the answer is complete.
func (l *limiter) sideRequest(ctx context.Context) (leave func(), err error) {
	slot, err := l.side.Await(ctx, "", modproxy.BroughtForward(ctx))
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", modproxy.ErrUnavailable, errBusy, err)
	}
	return slot.Give, nil
}

// pace waits for the rate. Clients take turns, so that a client with many questions does not delay another client's
// few. Background questions leave a quarter of the burst to clients.
func (l *limiter) pace(ctx context.Context) error {
	for modproxy.IsBackground(ctx) {
		lack := 1 + float64(l.rate.Burst()/4) - l.rate.Tokens()
		if lack <= 0 {
			break
		}
		select {
		case <-time.After(time.Duration(lack / float64(l.rate.Limit()) * float64(time.Second))):
		case <-modproxy.BroughtForward(ctx):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	slot, err := l.rateQueue.Await(ctx, modproxy.ClientOf(ctx).Name, modproxy.BroughtForward(ctx))
	if err != nil {
		return err
	}
	defer slot.Give()
	return l.rate.Wait(ctx)
}

// outages returns the outages that concern a namespace. The caller holds mu, as for all methods whose comment does not
// say that they take mu.
func (l *limiter) outages(namespace string) []*outage {
	outages := []*outage{&l.whole}
	if o := l.namespaces[namespace]; o != nil {
		outages = append(outages, o)
	}
	return outages
}

// pass reports whether t may be sent now. During an outage t becomes the trial, and its answer counts as late sooner.
// It takes mu.
func (l *limiter) pass(t *attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.began, t.late = time.Now(), hedge.Late()
	outages := l.outages(t.namespace)
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
func (l *limiter) wait(ctx context.Context, t *attempt, deadline time.Time) error {
	for {
		now := time.Now()
		l.mu.Lock()
		outages := l.outages(t.namespace)
		i := slices.IndexFunc(outages, func(o *outage) bool { return o.holds(now) })
		if i < 0 {
			l.mu.Unlock()
			return nil
		}
		o := outages[i]
		changed, next, refusal := o.changed, o.next, o.refusal(l.host, now)
		if o.trial != nil {
			next = deadline
		} else if len(outages) > 1 {
			next = next.Add(outagePause / 5) // a question of another namespace says more about the registry
		}
		l.mu.Unlock()
		if next.After(deadline) {
			return refusal
		}
		select {
		case <-changed:
			if l.lasting(t.namespace) {
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
func (l *limiter) lasting(namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.outages(namespace), func(o *outage) bool {
		return o.on && time.Since(o.since) > 2*answerWithin
	})
}

// done records the outcome of t. It counts a failure only if err shows that the registry is unavailable. A missing or
// denied module, an invalid question and a cancelled attempt are not failures. It takes mu.
func (l *limiter) done(t *attempt, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.over = true
	l.late = slices.DeleteFunc(l.late, func(late *attempt) bool { return late == t })
	why, _ := trouble(err)
	var later *modproxy.RetryLater
	switch {
	case errors.Is(err, context.Canceled): // says nothing about the registry
		for _, o := range l.outages(t.namespace) {
			if o.trial == t {
				o.wait(now, now)
			}
		}
	case errors.As(err, &later): // the registry asked for a pause
		for _, o := range l.affected(t, err) {
			o.pauseUntil(later.After, now)
		}
	case !errors.Is(err, modproxy.ErrUnavailable) || why == nil:
		l.succeed(t.namespace, now)
	default:
		for _, o := range l.affected(t, err) {
			o.fail(t, why, now)
		}
	}
}

// succeed ends the outage of a namespace and that of the registry. The end of the registry's outage ends those of all
// namespaces.
func (l *limiter) succeed(namespace string, now time.Time) {
	l.failing, l.answered = nil, now
	for name, o := range l.namespaces {
		if (name == namespace || l.whole.on) && o.end(now) {
			delete(l.namespaces, name)
		}
	}
	l.whole.end(now)
}

// markLate records that t takes long. If too many attempts are late, it cancels the oldest. It reports whether t counts as
// a failure until its answer arrives: its answer has not begun, or t is a trial that others wait for. It takes mu.
func (l *limiter) markLate(t *attempt) (late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.over {
		return false
	}
	if l.late = append(l.late, t); len(l.late) > maxLate {
		l.late[0].cancel(errLate)
		l.late = l.late[1:]
	}
	if t.begun.Load() && !slices.ContainsFunc(l.outages(t.namespace), func(o *outage) bool { return o.trial == t }) {
		return false
	}
	for _, o := range l.affected(t, errLate) {
		o.fail(t, errSlow, time.Now())
	}
	return true
}

// affected returns the outages that err, the failure of t, counts for.
func (l *limiter) affected(t *attempt, err error) []*outage {
	o := l.namespaces[t.namespace]
	if o == nil {
		for namespace, other := range l.namespaces {
			if len(l.namespaces) < maxFailing {
				break
			}
			other.wait(t.began, t.began) // any namespace; its waiting questions check again
			delete(l.namespaces, namespace)
		}
		o = &outage{}
		l.namespaces[t.namespace] = o
	}
	if len(l.failing) < 2 && !slices.Contains(l.failing, t.namespace) {
		l.failing = append(l.failing, t.namespace)
	}
	if _, ofAll := trouble(err); len(l.failing) > 1 || ofAll || l.whole.trial == t {
		return []*outage{&l.whole, o}
	}
	return []*outage{o}
}

// ordinaryAnswer is the size in bytes up to which any number of answers is read at once. Most answers have about 10
// KiB.
const ordinaryAnswer = 512 << 10

// receive reads an answer. Decoding a large answer takes several times its size in memory, so large answers wait for a
// slot, which leave returns. It needs no lock.
func (l *limiter) receive(ctx context.Context, answer io.Reader) (document []byte, leave func(), err error) {
	var all bytes.Buffer
	n, err := all.ReadFrom(io.LimitReader(answer, ordinaryAnswer))
	if err != nil || n < ordinaryAnswer {
		return all.Bytes(), func() {}, err
	}
	leave, err = l.largeAnswers.Take(ctx)
	if err != nil {
		return nil, func() {}, fmt.Errorf("%w: %d other large answers of this registry are being read: %w",
			modproxy.ErrUnavailable, maxLargeAnswers, err)
	}
	_, err = all.ReadFrom(answer)
	return all.Bytes(), leave, err
}
