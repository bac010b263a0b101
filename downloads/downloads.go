// Package downloads counts downloads of modules, and installations by each program.
//
//	r := &downloads.Registry{Next: next, Records: records}
//	go r.Run(ctx)
//	counts, err := r.Downloads(ctx, m)
//
// A download is counted when a client receives the location of a package. [Registry] is the layer that counts. All its
// requests must come from clients. The records are in a store, one for each downloaded module. They need no blobs and are
// never evicted.
//
// Invariant: every counted download has happened, and is counted once, by any of the processes. The count may be too low: a
// killed process loses the counts of the last seconds, a damaged record starts again at zero, and downloads beyond the limits
// are not counted. No request waits for the counting, and no answer depends on it.
package downloads

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Kind is the kind of the records of modules.
const Kind store.Kind = "module-downloads"

// Registry returns the results of Next, and counts the locations of modules. It does not count locations of providers. It is
// safe for concurrent use. Several processes may share the records.
type Registry struct {
	Next     modproxy.Registry
	Records  store.Records
	Observer Observer // may be nil

	mu      sync.Mutex
	waiting map[modproxy.Address]map[string]int64 // unrecorded downloads by folded module and full version
	held    int                                   // versions in waiting

	programs map[string]int64 // unrecorded installations by program

	recording sync.RWMutex // held for writing while a record and the unrecorded counts may not add up
}

var _ modproxy.Registry = (*Registry)(nil)

// Observer receives errors.
type Observer interface {
	// ObserveDownloads is called with the reason why counts are recorded later, or lost.
	ObserveDownloads(err error)
}

const (
	recordEvery = 10 * time.Second
	maxWritten  = 128              // modules each time: every one is a change of the store, which is flushed
	maxWaiting  = 4096             // versions that wait to be recorded; others are not counted
	lastWrite   = 10 * time.Second // how long the end may take
)

// Versions returns the result of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns the result of Next, and counts it.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	l, err := r.Next.Location(ctx, v)
	if err == nil && !v.IsProvider() {
		r.count(v)
		r.countProgram(ctx)
	}
	return l, err
}

// Package returns the result of Next. A release of a provider counts as an installation by the program that requests it.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.Next.Package(ctx, v)
	if err == nil && v.IsProvider() {
		r.countProgram(ctx)
	}
	return p, err
}

// count counts one download. It does not wait for the store.
func (r *Registry) count(v modproxy.Ref) {
	m := v.Address.Folded()
	r.mu.Lock()
	defer r.mu.Unlock()
	versions := r.waiting[m]
	n, known := versions[v.FullVersion()]
	switch {
	case !known && r.held >= maxWaiting:
		return
	case !known:
		r.held++
	}
	if versions == nil {
		if r.waiting == nil {
			r.waiting = map[modproxy.Address]map[string]int64{}
		}
		versions = map[string]int64{}
		r.waiting[m] = versions
	}
	versions[v.FullVersion()] = n + 1
}

// Run records the counts every ten seconds until ctx ends, and then the rest.
func (r *Registry) Run(ctx context.Context) {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.write(context.WithoutCancel(ctx), maxWritten)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
			defer cancel()
			r.write(last, maxWaiting)
			return
		}
	}
}

// write records the counts of at most most modules.
func (r *Registry) write(ctx context.Context, most int) {
	r.mu.Lock()
	var some []modproxy.Address
	for m := range r.waiting {
		if len(some) < most {
			some = append(some, m)
		}
	}
	r.mu.Unlock()
	for _, m := range some {
		if err := r.record(ctx, m); err != nil {
			if r.Observer != nil {
				r.Observer.ObserveDownloads(fmt.Errorf("%s and others: %w", m, err))
			}
			return
		}
	}
	if err := r.recordPrograms(ctx); err != nil && r.Observer != nil {
		r.Observer.ObserveDownloads(fmt.Errorf("the programs that install: %w", err))
	}
}

// record adds the unrecorded counts of m to its record.
func (r *Registry) record(ctx context.Context, m modproxy.Address) error {
	r.recording.Lock()
	defer r.recording.Unlock()
	more := r.waitingOf(m)
	stored, err := r.table().Update(ctx, m.String(), func(row *store.Row[counts]) { row.Value.add(more, time.Now()) })
	if stored {
		r.forget(m, more)
	}
	return err
}

func (r *Registry) table() store.Table[counts] {
	return store.Table[counts]{Records: r.Records, Kind: Kind}
}

// waitingOf returns the unrecorded counts of m.
func (r *Registry) waitingOf(m modproxy.Address) map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.waiting[m])
}

// forget subtracts counted from the unrecorded counts of m.
func (r *Registry) forget(m modproxy.Address, counted map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	versions := r.waiting[m]
	for version, n := range counted {
		if versions[version] -= n; versions[version] == 0 {
			delete(versions, version)
			r.held--
		}
	}
	if len(versions) == 0 {
		delete(r.waiting, m)
	}
}

// Downloads returns what was counted of m: what is recorded, and what this process has not recorded yet. Its week has seven
// days, its month 30 and its year 365, with today. Errors: [modproxy.ErrUnavailable].
func (r *Registry) Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	m = m.Folded()
	r.recording.RLock()
	defer r.recording.RUnlock()
	row, err := r.table().Get(ctx, m.String())
	if err != nil {
		return nil, err
	}
	c, now := row.Value, time.Now()
	c.add(r.waitingOf(m), now)
	return &modproxy.Downloads{
		Week: c.since(now, 7), Month: c.since(now, 30), Year: c.since(now, 365), Total: c.Total, Versions: c.Versions,
		Answered: modproxy.Answered{Time: now, Hit: true},
	}, nil
}
