package ask

import "time"

// Health is what the questions to a server since the start have shown about it. The zero Health belongs to a server whose
// questions have no outcome yet.
type Health struct {
	Answered time.Time // of the last answer; zero: no question was answered
	Trouble            // the worst one of its services and parts; zero: the last questions were answered
}

// Trouble is the failure of a server, or of a part of it.
type Trouble struct {
	Why     string    // the reason of the last failure, without details of the question
	Failed  time.Time // of the last failure
	Down    time.Time // the time since which the circuit breaker holds questions back; zero: it does not
	Service string    // such as modules.v1; the owner of the Limiter sets it
	Part    string    // empty: the failures are not about a single part
}

// isWorse reports whether t says more about a server than other: the circuit breaker, then a failure, then the later one.
func (t Trouble) isWorse(other Trouble) bool {
	switch {
	case t.Why == "" || other.Why == "":
		return t.Why != ""
	case t.Down.IsZero() != other.Down.IsZero():
		return other.Down.IsZero()
	}
	return t.Failed.After(other.Failed)
}

// Join returns the health of a server with the services of h and other: the later answer, and the worse trouble.
func (h Health) Join(other Health) Health {
	if other.Answered.After(h.Answered) {
		h.Answered = other.Answered
	}
	if other.isWorse(h.Trouble) {
		h.Trouble = other.Trouble
	}
	return h
}

// Health returns the health of the server, as the limiter's questions have shown it. It takes mu.
func (l *Limiter) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Health{Answered: l.answered, Trouble: l.whole.trouble("")}
	for part, o := range l.parts {
		if t := o.trouble(part); t.isWorse(h.Trouble) {
			h.Trouble = t
		}
	}
	return h
}

func (o *outage) trouble(part string) (t Trouble) {
	if o.why == nil {
		return t
	}
	t = Trouble{Why: o.why.Error(), Failed: o.counted, Part: part}
	if o.on {
		t.Down = o.since
	}
	return t
}
