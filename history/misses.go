package history

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/observe"
)

// Misses records requests for missing content in a [Demand]. It observes an offline registry, and is safe for concurrent use.
//
// It also records a client that requests the versions of a module but no location in the next three seconds. Clients choose a
// version from the list themselves, so that no listed version matched this client's constraint. The request then names the
// module only, because the client does not send the version that it wanted.
type Misses struct {
	demand *Demand

	mu       sync.Mutex
	choosing map[choice]*time.Timer // of clients that recently received versions
}

var _ observe.Observer = (*Misses)(nil)

// choice is a client's pending choice among the versions of a module.
type choice struct {
	asker  string
	module modproxy.Address // folded
}

const (
	chooseIn    = 3 * time.Second // clients request a version immediately, or not at all
	maxChoosing = 4096            // further choices are not recorded
)

// NewMisses returns an observer that records in demand.
func NewMisses(demand *Demand) *Misses {
	return &Misses{demand: demand, choosing: map[choice]*time.Timer{}}
}

// Requested implements [observe.Observer]. A client that requests a location has found a version, and is not recorded.
func (m *Misses) Requested(ctx context.Context, q observe.Question) {
	if q.Kind == observe.Location {
		m.chosen(choice{modproxy.ClientOf(ctx).Name, q.Ref.Address.Folded()})
	}
}

// Answered implements [observe.Observer]. It records the missing content of a [modproxy.NotCached].
func (m *Misses) Answered(ctx context.Context, q observe.Question, a observe.Answer) {
	if missing, ok := errors.AsType[*modproxy.NotCached](a.Err); ok {
		m.demand.Add(missing.Ref, modproxy.ClientOf(ctx))
	}
	// Clients request the versions of a provider even if they have one.
	if q.Kind == observe.Versions && a.Err == nil && q.Ref.IsModule() {
		m.choose(modproxy.ClientOf(ctx), q.Ref.Address, a.Versions.ETag)
	}
}

// choose records that no version of a list was chosen, unless the client requests a location soon.
func (m *Misses) choose(asker modproxy.Client, of modproxy.Address, etag string) {
	c := choice{asker.Name, of.Folded()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.choosing[c] != nil || len(m.choosing) >= maxChoosing {
		return
	}
	m.choosing[c] = time.AfterFunc(chooseIn, func() {
		if m.chosen(c) {
			m.demand.add(of.At(""), asker, etag)
		}
	})
}

// chosen ends a choice, and reports whether it was pending.
func (m *Misses) chosen(c choice) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	timer, ok := m.choosing[c]
	if ok {
		timer.Stop()
		delete(m.choosing, c)
	}
	return ok
}
