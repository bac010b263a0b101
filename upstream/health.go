package upstream

import "time"

// Health is what the questions to a registry since the start have shown about it. The zero Health belongs to a registry whose
// questions have no outcome yet.
type Health struct {
	Answered time.Time // of the last answer; zero: no question was answered
	Trouble            // the worst one of its services and namespaces; zero: the last questions were answered
}

// Trouble is the failure of a registry, or of a part of it.
type Trouble struct {
	Why       string    // the reason of the last failure, without details of the question
	Failed    time.Time // of the last failure
	Down      time.Time // the time since which the circuit breaker holds questions back; zero: it does not
	Service   string    // such as modules.v1
	Namespace string    // empty: the failures are not about a single namespace
}

// isWorse reports whether t says more about a registry than other: the circuit breaker, then a failure, then the later one.
func (t Trouble) isWorse(other Trouble) bool {
	switch {
	case t.Why == "" || other.Why == "":
		return t.Why != ""
	case t.Down.IsZero() != other.Down.IsZero():
		return other.Down.IsZero()
	}
	return t.Failed.After(other.Failed)
}

// Health returns the health of all registries that received a question, by normalised hostname. It sends no request.
func (c *Client) Health() map[string]Health {
	all := map[string]Health{}
	for _, s := range c.limiters.Keys() {
		l, ok := c.limiters.Peek(s)
		if !ok {
			continue
		}
		h, of := all[s.host], l.health()
		if of.Answered.After(h.Answered) {
			h.Answered = of.Answered
		}
		if of.Service = string(s.service); of.isWorse(h.Trouble) {
			h.Trouble = of.Trouble
		}
		all[s.host] = h
	}
	return all
}

// health returns the health of the limiter's service. It takes mu.
func (l *limiter) health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Health{Answered: l.answered, Trouble: l.whole.trouble("")}
	for namespace, o := range l.namespaces {
		if t := o.trouble(namespace); t.isWorse(h.Trouble) {
			h.Trouble = t
		}
	}
	return h
}

func (o *outage) trouble(namespace string) (t Trouble) {
	if o.why == nil {
		return t
	}
	t = Trouble{Why: o.why.Error(), Failed: o.counted, Namespace: namespace}
	if o.on {
		t.Down = o.since
	}
	return t
}
