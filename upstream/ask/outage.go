package ask

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/modproxy/modproxy"
)

// outage has the failures of a server or one of its parts. After several failures in a row it is on: after each
// pause one question, the trial, is sent, until a trial succeeds. The caller of its methods holds the limiter's lock.
type outage struct {
	failures int       // in a row
	counted  time.Time // the time of the last failure; questions that were sent earlier do not count again
	why      error     // the reason of the last failure, without details of the question

	on      bool
	since   time.Time     // the time when it began
	next    time.Time     // the earliest time of the next trial
	trial   *attempt      // the trial in progress
	changed chan struct{} // closed when a trial or the outage ends
}

const (
	outageFailures = 3                      // in a row
	outagePause    = 300 * time.Millisecond // the shortest pause between trials
	outageMaxPause = 2 * time.Second        // the longest pause
)

// end clears all failures. It reports false, and changes nothing, while the server's Retry-After has not passed.
func (o *outage) end(now time.Time) bool {
	if o.why == errPauseRequested && now.Before(o.next) {
		return false
	}
	if o.changed != nil {
		close(o.changed)
	}
	*o = outage{counted: now}
	return true
}

// fail counts a failure of t. Failures of questions that were in progress at the same time count as one.
func (o *outage) fail(t *attempt, why error, now time.Time) {
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

// pause returns the pause until the next trial. It grows with the duration of the outage.
func (o *outage) pause(now time.Time) time.Duration {
	if !o.on {
		return outagePause
	}
	return min(max(now.Sub(o.since)/4, outagePause), outageMaxPause)
}

// pauseUntil holds questions back until the time that the server gave in Retry-After.
func (o *outage) pauseUntil(until, now time.Time) {
	if o.on && o.trial == nil && until.Before(o.next) {
		return
	}
	o.counted, o.why = now, errPauseRequested
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

// holds reports whether the outage holds all questions back now.
func (o *outage) holds(now time.Time) bool {
	return o.on && (o.trial != nil || now.Before(o.next))
}

// refusal returns the error for a question that is not sent. It has the reason of earlier failures, without details of
// their questions.
func (o *outage) refusal(host string, now time.Time) error {
	after := o.next
	if o.trial != nil {
		after = now.Add(outageMaxPause)
	}
	err := fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, host, o.why)
	if o.why != errPauseRequested {
		err = fmt.Errorf("%w (%d times in a row); modproxy tries again every second or two", err, o.failures)
	}
	return &modproxy.RetryLater{After: after, Err: err}
}
