package upstream

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/modproxy/modproxy"
)

// door is what is known of the trouble of a registry, or of one namespace of it.
// After failures it is shut: then one question tries it after each pause, until one
// succeeds. Its methods are called with the lock of its gate held.
type door struct {
	failures int       // in a row
	counted  time.Time // when the last one was: what was asked before then says nothing new
	why      error     // of the last one, without a word of the question

	shut    bool
	since   time.Time     // when it was shut
	next    time.Time     // when that may be asked
	trial   *try          // the one that is under way
	changed chan struct{} // closed when a trial ends, or the door opens
}

const (
	// Failures in a row that shut a door.
	doorFailures = 3
	// The shortest and the longest pause.
	doorPause    = 300 * time.Millisecond
	doorMaxPause = 2 * time.Second
)

// open forgets all trouble, but not a wish.
func (d *door) open(now time.Time) {
	if d.wished(now) {
		return
	}
	changed := d.changed
	*d = door{counted: now}
	if changed != nil {
		close(changed)
	}
}

// fail counts a failure of t. Those of questions that were under way at the same time
// are one failure.
func (d *door) fail(t *try, why error, now time.Time) {
	if d.shut && d.trial != t || t.began.Before(d.counted) {
		return
	}
	d.failures++
	d.counted, d.why = now, why
	if d.shut || d.failures >= doorFailures {
		pause := d.pause(now)
		d.close(now, now.Add(pause/2+rand.N(pause/2+1)))
	}
}

// pause is how long the door stays closed now: longer, the longer it has been shut.
func (d *door) pause(now time.Time) time.Duration {
	if !d.shut {
		return doorPause
	}
	return min(max(now.Sub(d.since)/4, doorPause), doorMaxPause)
}

// wish shuts the door until the time at which the registry wants to be asked again.
func (d *door) wish(until, now time.Time) {
	if d.shut && d.trial == nil && until.Before(d.next) {
		return
	}
	d.counted, d.why = now, errLeftAlone
	d.close(now, until)
}

// wished reports whether the door is shut by a wish.
func (d *door) wished(now time.Time) bool {
	return d.shut && d.why == errLeftAlone && now.Before(d.next)
}

// close shuts the door until next.
func (d *door) close(now, next time.Time) {
	if d.changed != nil {
		close(d.changed)
	}
	if !d.shut {
		d.shut, d.since = true, now
	}
	d.next, d.trial, d.changed = next, nil, make(chan struct{})
}

// closed reports whether nobody but a trial that is under way may pass.
func (d *door) closed(now time.Time) bool {
	return d.shut && (d.trial != nil || now.Before(d.next))
}

// refusal is what those are told who do not pass: what the questions for host before
// theirs met, and without a word of those.
func (d *door) refusal(host string, now time.Time) error {
	after := d.next
	if d.trial != nil {
		after = now.Add(doorMaxPause)
	}
	err := fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, host, d.why)
	if d.why != errLeftAlone {
		err = fmt.Errorf("%w (%d times in a row); it is asked again every second or two", err, d.failures)
	}
	return &modproxy.RetryLater{After: after, Err: err}
}
