package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/hedge"
	"github.com/modproxy/modproxy/internal/slots"
)

// Limiter decides when a question for a server is sent. It shares slots among clients, prefers questions
// that clients wait for, keeps to a rate and to the server's Retry-After, and acts as a circuit breaker while the
// server fails. [New] makes one. It is safe for concurrent use.
//
// It has one outage for the server, and one for each failing part. The failures of one part do not affect
// others, unless two parts fail and none succeeds.
type Limiter struct {
	options   Options
	queue     *slots.Queue // by client
	rate      *rate.Limiter
	rateQueue *slots.Queue // the queue for the rate, by client; it has one slot

	mu       sync.Mutex
	whole    outage
	parts    map[string]*outage // parts whose last question failed
	failing  []string           // parts that failed since the last success, two at most
	late     []*attempt         // attempts in progress without a slot, the oldest first
	answered time.Time          // of the last answer
}

const (
	defaultAtOnce = 16   // questions to one server in progress at a time
	defaultRate   = 100  // questions to one server per second
	maxWaiting    = 1024 // questions that wait for a slot
	maxFailing    = 1024 // failing parts in memory
	// lateShare times the slots is the most questions whose answers are late and that no longer have a slot. With those that
	// have a slot, by default one limiter has at most as many questions in progress as egress makes connections.
	lateShare = 3
)

// Options are the settings of a [Limiter].
type Options struct {
	Host   string // of the server, for messages
	Rate   int    // the most questions per second; zero means 100
	AtOnce int    // the most questions in progress whose answers are not late; one client has at most three quarters; zero means 16
	Hedges bool   // a question whose answer is late is sent a second time; see [egress.Client.Hedges]
	// Late is the time after which an answer that has not begun is late. Zero means [hedge.Late], and less while the server is failing.
	Late time.Duration
	// Share, unless nil, is another limiter for the same server, as for another service. Both share slots and the rate, but not
	// outages. Rate and AtOnce are then those of Share.
	Share *Limiter
}

// New returns a Limiter.
func New(o Options) *Limiter {
	l := &Limiter{options: o, parts: map[string]*outage{}}
	if s := o.Share; s != nil {
		l.options.AtOnce, l.options.Rate = s.options.AtOnce, s.options.Rate
		l.queue, l.rate, l.rateQueue = s.queue, s.rate, s.rateQueue
		return l
	}
	l.options.AtOnce, l.options.Rate = cmp.Or(o.AtOnce, defaultAtOnce), cmp.Or(o.Rate, defaultRate)
	l.queue = slots.New(l.options.AtOnce, l.options.AtOnce*3/4, 0, maxWaiting)
	l.rate = rate.NewLimiter(rate.Limit(l.options.Rate), l.options.Rate)
	l.rateQueue = slots.New(1, 1, 0, maxWaiting)
	return l
}

// pace waits for the rate. Clients take turns, so that a client with many questions does not delay another client's
// few. Background questions leave a quarter of the burst to clients.
func (l *Limiter) pace(ctx context.Context) error {
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

// outages returns the outages that concern a part. The caller holds mu, as for all methods whose comment does not
// say that they take mu.
func (l *Limiter) outages(part string) []*outage {
	outages := []*outage{&l.whole}
	if o := l.parts[part]; o != nil {
		outages = append(outages, o)
	}
	return outages
}

// pass reports whether t may be sent now. During an outage t becomes the trial, and its answer counts as late sooner.
// It takes mu.
func (l *Limiter) pass(t *attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.began, t.late = time.Now(), cmp.Or(l.options.Late, hedge.Late())
	outages := l.outages(t.part)
	if slices.ContainsFunc(outages, func(o *outage) bool { return o.holds(t.began) }) {
		return false
	}
	for _, o := range outages {
		if o.on {
			o.trial = t
			if l.options.Late == 0 {
				t.late = min(t.late, 2*o.pause(t.began))
			}
		}
	}
	return true
}

// wait waits until no outage holds t back. It fails if that is later than deadline, or if the outage is long (see
// lasting). It takes mu.
func (l *Limiter) wait(ctx context.Context, t *attempt, deadline time.Time) error {
	for {
		now := time.Now()
		l.mu.Lock()
		outages := l.outages(t.part)
		i := slices.IndexFunc(outages, func(o *outage) bool { return o.holds(now) })
		if i < 0 {
			l.mu.Unlock()
			return nil
		}
		o := outages[i]
		changed, next, refusal := o.changed, o.next, o.refusal(l.options.Host, now)
		if o.trial != nil {
			next = deadline
		} else if len(outages) > 1 {
			next = next.Add(outagePause / 5) // a question of another part says more about the server
		}
		l.mu.Unlock()
		if next.After(deadline) {
			return refusal
		}
		select {
		case <-changed:
			if l.lasting(t.part) {
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
func (l *Limiter) lasting(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.outages(part), func(o *outage) bool {
		return o.on && time.Since(o.since) > 2*Within
	})
}

// done records the outcome of t. It counts a failure only if err shows that the server is unavailable. A missing or
// denied module, an invalid question and a cancelled attempt are not failures. It takes mu.
func (l *Limiter) done(t *attempt, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.over = true
	l.late = slices.DeleteFunc(l.late, func(late *attempt) bool { return late == t })
	why, _ := Failure(err)
	var later *modproxy.RetryLater
	switch {
	case errors.Is(err, context.Canceled): // says nothing about the server
		for _, o := range l.outages(t.part) {
			if o.trial == t {
				o.wait(now, now)
			}
		}
	case errors.As(err, &later): // the server asked for a pause
		for _, o := range l.affected(t, err) {
			o.pauseUntil(later.After, now)
		}
	case !errors.Is(err, modproxy.ErrUnavailable) || why == nil:
		l.succeed(t.part, now)
	default:
		for _, o := range l.affected(t, err) {
			o.fail(t, why, now)
		}
	}
}

// succeed ends the outage of a part and that of the server. The end of the server's outage ends those of all parts.
func (l *Limiter) succeed(part string, now time.Time) {
	l.failing, l.answered = nil, now
	for name, o := range l.parts {
		if (name == part || l.whole.on) && o.end(now) {
			delete(l.parts, name)
		}
	}
	l.whole.end(now)
}

// markLate records that t takes long. If too many attempts are late, it cancels the oldest. It reports whether t counts as
// a failure until its answer arrives: its answer has not begun, or t is a trial that others wait for. It takes mu.
func (l *Limiter) markLate(t *attempt) (late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.over {
		return false
	}
	if l.late = append(l.late, t); len(l.late) > lateShare*l.options.AtOnce {
		l.late[0].cancel(errLate)
		l.late = l.late[1:]
	}
	if t.begun.Load() && !slices.ContainsFunc(l.outages(t.part), func(o *outage) bool { return o.trial == t }) {
		return false
	}
	for _, o := range l.affected(t, errLate) {
		o.fail(t, errSlow, time.Now())
	}
	return true
}

// affected returns the outages that err, the failure of t, counts for.
func (l *Limiter) affected(t *attempt, err error) []*outage {
	o := l.parts[t.part]
	if o == nil {
		for part, other := range l.parts {
			if len(l.parts) < maxFailing {
				break
			}
			other.wait(t.began, t.began) // any part; its waiting questions check again
			delete(l.parts, part)
		}
		o = &outage{}
		l.parts[t.part] = o
	}
	if len(l.failing) < 2 && !slices.Contains(l.failing, t.part) {
		l.failing = append(l.failing, t.part)
	}
	if _, ofAll := Failure(err); len(l.failing) > 1 || ofAll || l.whole.trial == t {
		return []*outage{&l.whole, o}
	}
	return []*outage{o}
}
