package history

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/store"
)

// DownloadsKind is the kind of the records of the downloads of modules. Each downloaded module has one record.
const DownloadsKind store.Kind = "module-downloads"

// Downloads is the table of the downloads of modules, and of installations by each program. It observes the answers to clients. It
// is safe for concurrent use. Several processes may share the records. It implements catalog.Counts.
//
// A download of a module is counted when a location of its package is ready to be sent to a client, because registries count
// downloads in this way. The client need not download the package. Downloads of providers are not counted. An installation is
// counted at the same time, and when the release of a provider is ready to be sent to a client.
//
// Every location is counted once, by one of the processes. The count may be too low: a killed process
// loses the counts of the last seconds, a damaged record starts again at zero, and downloads beyond the limits are not counted.
type Downloads struct {
	modules  store.Table[counts]
	programs store.Table[programs]
	observe  func(error)

	mu       sync.Mutex
	waiting  map[modproxy.Address]map[string]int64 // unrecorded downloads by folded module and full version
	held     int                                   // versions in waiting
	installs map[string]int64                      // unrecorded installations by program

	recording sync.RWMutex // held for writing while a record and the unrecorded counts may not add up
}

var _ observe.Observer = (*Downloads)(nil)

const (
	recordEvery = 10 * time.Second
	maxRecorded = 128              // modules each time: every one is a change of the store, which is flushed
	maxWaiting  = 4096             // versions that wait to be recorded; others are not counted
	lastWrite   = 10 * time.Second // how long the end may take
)

// NewDownloads returns the table in records. Run records the counts. observe, if not nil, is called with the reason why counts are
// recorded later, or lost.
func NewDownloads(records store.Records, observe func(error)) *Downloads {
	if observe == nil {
		observe = func(error) {}
	}
	return &Downloads{
		modules:  store.Table[counts]{Records: records, Kind: DownloadsKind},
		programs: store.Table[programs]{Records: records, Kind: ProgramsKind},
		observe:  observe, waiting: map[modproxy.Address]map[string]int64{}, installs: map[string]int64{},
	}
}

// Requested implements [observe.Observer]. It does nothing.
func (*Downloads) Requested(context.Context, observe.Question) {}

// Answered implements [observe.Observer]. It counts answers without an error.
func (d *Downloads) Answered(ctx context.Context, q observe.Question, a observe.Answer) {
	if a.Err != nil {
		return
	}
	switch q.Ref.Kind() {
	case modproxy.Module:
		if q.Kind == observe.Location {
			d.count(q.Ref)
			d.countProgram(ctx)
		}
	case modproxy.Provider:
		if q.Kind == observe.Package {
			d.countProgram(ctx)
		}
	}
}

// count counts one download. It does not wait for the store.
func (d *Downloads) count(v modproxy.Ref) {
	m := v.Address.Folded()
	d.mu.Lock()
	defer d.mu.Unlock()
	versions := d.waiting[m]
	n, known := versions[v.FullVersion()]
	switch {
	case !known && d.held >= maxWaiting:
		return
	case !known:
		d.held++
	}
	if versions == nil {
		versions = map[string]int64{}
		d.waiting[m] = versions
	}
	versions[v.FullVersion()] = n + 1
}

// Run records the counts every ten seconds until ctx ends, and then the rest, for up to ten seconds. Call Run once.
func (d *Downloads) Run(ctx context.Context) {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.write(context.WithoutCancel(ctx), maxRecorded)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
			defer cancel()
			d.write(last, maxWaiting)
			return
		}
	}
}

// write records the counts of at most most modules.
func (d *Downloads) write(ctx context.Context, most int) {
	d.mu.Lock()
	var some []modproxy.Address
	for m := range d.waiting {
		if len(some) < most {
			some = append(some, m)
		}
	}
	d.mu.Unlock()
	for _, m := range some {
		if err := d.record(ctx, m); err != nil {
			d.observe(fmt.Errorf("%s and others: %w", m, err))
			return
		}
	}
	if err := d.recordPrograms(ctx); err != nil {
		d.observe(fmt.Errorf("the programs that install: %w", err))
	}
}

// record adds the unrecorded counts of m to its record.
func (d *Downloads) record(ctx context.Context, m modproxy.Address) error {
	d.recording.Lock()
	defer d.recording.Unlock()
	more := d.waitingOf(m)
	stored, err := d.modules.Update(ctx, m.String(), func(row *store.Row[counts]) { row.Value.add(more, time.Now()) })
	if stored {
		d.forget(m, more)
	}
	return err
}

// waitingOf returns the unrecorded counts of m.
func (d *Downloads) waitingOf(m modproxy.Address) map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.waiting[m])
}

// forget subtracts counted from the unrecorded counts of m.
func (d *Downloads) forget(m modproxy.Address, counted map[string]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	versions := d.waiting[m]
	for version, n := range counted {
		if versions[version] -= n; versions[version] == 0 {
			delete(versions, version)
			d.held--
		}
	}
	if len(versions) == 0 {
		delete(d.waiting, m)
	}
}

// Downloads returns what was counted of m: what is recorded, and what this process has not recorded yet. Its week has seven
// days, its month 30 and its year 365, with today. Errors: [modproxy.ErrUnavailable].
func (d *Downloads) Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	m = m.Folded()
	d.recording.RLock()
	defer d.recording.RUnlock()
	row, err := d.modules.Get(ctx, m.String())
	if err != nil {
		return nil, err
	}
	c, now := row.Value, time.Now()
	c.add(d.waitingOf(m), now)
	return &modproxy.Downloads{
		Week: c.since(now, 7), Month: c.since(now, 30), Year: c.since(now, 365), Total: c.Total, Versions: c.Versions,
		Answered: modproxy.Answered{Time: now, Hit: true},
	}, nil
}
