package cache

import (
	"context"
	"errors"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	soon = time.Second // how long a refresh is waited for before the stale document is served
	// How long the refreshes of a registry are not waited for after one took
	// longer than that. One that is answered sooner ends it.
	slowPause = 30 * time.Second
)

var errSlow = errors.New("the registry did not answer soon")

// refreshed is the answer for m when a, which is what is kept, is not fresh: that
// of Next if it comes soon, else a. A client that installs ten modules does not
// wait ten times for a registry that is down.
func (r *Registry) refreshed(ctx context.Context, m modproxy.Module, a *answer) (*modproxy.Versions, error) {
	if time.Now().Before(a.again) || r.held.get(m) != nil {
		return r.serveStale(m, a)
	}
	call, err := r.ask(ctx, m)
	if err != nil || r.slow.get(m.Host) != nil {
		return r.serveStale(m, a) // what becomes of the question, the next one sees
	}
	v, err := call.within(ctx, soon-time.Since(call.began), "versions", key{Module: m})
	switch {
	case err == nil, errors.Is(err, modproxy.ErrNotFound):
		return v, err
	case time.Since(call.began) >= soon:
		r.slow.add(m.Host, errSlow, slowPause)
	}
	return r.serveStale(m, a)
}

func (r *Registry) serveStale(m modproxy.Module, a *answer) (*modproxy.Versions, error) {
	r.observe(Event{Kind: StaleServed, Module: m})
	return a.stale, nil
}

// paced takes into account how long a question for versions took.
func (r *Registry) paced(host string, took time.Duration, err error) {
	switch {
	case took >= soon:
		r.slow.add(host, errSlow, slowPause)
	case err == nil:
		r.slow.kept.Remove(host)
	}
}

// outdate makes the next question for the versions of m ask Next, if what is kept
// does not list version, which Next has. Nobody waits until a document is read for it.
func (r *Registry) outdate(m modproxy.Module, version string) {
	look := func(a *answer) {
		if _, listed := a.kept.Find(version); !listed {
			r.answers.outdate(m, a)
		}
	}
	if a, ok := r.answers.get(m); ok {
		look(a)
		return
	}
	r.asking.start("", func() { // when too much goes on, it is old soon enough
		if a, err := r.keptAnswer(r.asking.ending, m); err == nil && a != nil {
			look(a)
		}
	})
}

// listed forgets the absence of m, and of every version that v lists.
func (r *Registry) listed(m modproxy.Module, v *modproxy.Versions) {
	if r.missing.kept.Len() == 0 {
		return
	}
	r.missing.kept.Remove(key{Module: m})
	for _, l := range v.List {
		r.missing.kept.Remove(key{m, l.Version.String()})
	}
}
