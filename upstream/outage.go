package upstream

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/modproxy/modproxy"
)

// outage is what is known of the trouble of a registry or one of its namespaces. After failures in a row it is on:
// one question, the trial, is sent after each pause until one succeeds. Its methods are called under its gate's lock.
type outage struct {
	failures int       // in a row
	counted  time.Time // when the last one was: what was asked before then says nothing new
	why      error     // of the last one, without a word of the question

	on      bool
	since   time.Time     // when it began
	next    time.Time     // when the next trial may be sent
	trial   *try          // the one that is under way
	changed chan struct{} // closed when a trial ends, or the outage
}

const (
	outageFailures = 3                      // in a row
	outagePause    = 300 * time.Millisecond // the shortest pause between trials
	outageMaxPause = 2 * time.Second        // the longest
)

// end forgets all trouble, unless that is that the registry wants to be left alone.
func (o *outage) end(now time.Time) bool {
	if o.why == errLeftAlone && now.Before(o.next) {
		return false
	}
	if o.changed != nil {
		close(o.changed)
	}
	*o = outage{counted: now}
	return true
}

// fail counts a failure of t. Those of questions that were under way at the same time are one failure.
func (o *outage) fail(t *try, why error, now time.Time) {
	if o.on && o.trial != t || t.began.Before(o.counted) {
		return
	}
	o.failures++
	o.counted, o.why = now, why
	if o.on || o.failures >= outageFailures {
		pause := o.pause(now)
		o.wait(now, now.Add(pause/2+rand.N(pause/2+1)))
	}
}

// pause returns the pause until the next trial: longer, the longer the outage lasts.
func (o *outage) pause(now time.Time) time.Duration {
	if !o.on {
		return outagePause
	}
	return min(max(now.Sub(o.since)/4, outagePause), outageMaxPause)
}

// leaveAlone waits until the time at which the registry wants to be asked again.
func (o *outage) leaveAlone(until, now time.Time) {
	if o.on && o.trial == nil && until.Before(o.next) {
		return
	}
	o.counted, o.why = now, errLeftAlone
	o.wait(now, until)
}

// wait begins or prolongs the outage: the next trial may be sent at next.
func (o *outage) wait(now, next time.Time) {
	if o.changed != nil {
		close(o.changed)
	}
	if !o.on {
		o.on, o.since = true, now
	}
	o.next, o.trial, o.changed = next, nil, make(chan struct{})
}

// holds reports whether no question may be sent now.
func (o *outage) holds(now time.Time) bool {
	return o.on && (o.trial != nil || now.Before(o.next))
}

// refusal returns the error for a question that is not sent: what those before it met, without a word of them.
func (o *outage) refusal(host string, now time.Time) error {
	after := o.next
	if o.trial != nil {
		after = now.Add(outageMaxPause)
	}
	err := fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, host, o.why)
	if o.why != errLeftAlone {
		err = fmt.Errorf("%w (%d times in a row); it is asked again every second or two", err, o.failures)
	}
	return &modproxy.RetryLater{After: after, Err: err}
}
