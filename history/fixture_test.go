package history_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

// refOf returns the key of a module's record, as existing data directories have it.
func refOf(m modproxy.Address) store.Ref {
	return store.Ref{Kind: "module-sights", Key: strings.ToLower(m.String())}
}

// next is a registry that lists the versions of a test.
type next struct {
	mu     sync.Mutex
	listed string        // versions, separated by spaces
	age    time.Duration // of the list
}

func (n *next) list(versions string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listed = versions
}

func (n *next) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := document(n.listed)
	if err == nil {
		v.Time = v.Time.Add(-n.age)
	}
	return v, err
}

func (n *next) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{}, modproxy.ErrNotFound
}

func (n *next) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return nil, modproxy.ErrNotFound
}

func document(versions string) (*modproxy.Versions, error) {
	if versions == "" {
		return nil, modproxy.ErrNotFound
	}
	var entries []string
	for version := range strings.FieldsSeq(versions) {
		entries = append(entries, fmt.Sprintf(`{"version": %q}`, version))
	}
	v, err := modproxy.ParseVersions([]byte(`{"modules": [{"versions": [` + strings.Join(entries, ",") + `]}]}`))
	if err == nil {
		v.Time = time.Now()
	}
	return v, err
}

// dates returns the dates of a test.
type dates struct {
	mu    sync.Mutex
	give  map[string]time.Time
	err   error
	takes time.Duration
	asked []string // the versions of each request

	single   bool                                                         // asked for each version separately
	one      func(ctx context.Context, version string) (time.Time, error) // nil: dates from give
	askedOne []string                                                     // versions
	pace     time.Duration                                                // delay of requests in the background
}

func (d *dates) Published(ctx context.Context, m modproxy.Address, versions []string) (map[string]time.Time, []string, error) {
	d.mu.Lock()
	d.asked = append(d.asked, strings.Join(versions, " "))
	give, err, takes, single := d.give, d.err, d.takes, d.single
	d.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if single && err == nil && len(versions) > 0 {
		at, err := d.PublishedOf(ctx, m.At(versions[0]))
		return map[string]time.Time{versions[0]: at}, versions[1:], err
	}
	return give, nil, err
}

func (d *dates) PublishedOf(ctx context.Context, v modproxy.Ref) (time.Time, error) {
	d.mu.Lock()
	d.askedOne = append(d.askedOne, v.Version)
	at, one, pace := d.give[v.Version], d.one, d.pace
	d.mu.Unlock()
	if pace > 0 && modproxy.IsBackground(ctx) {
		select {
		case <-time.After(pace):
		case <-modproxy.BroughtForward(ctx):
		case <-ctx.Done():
			return at, ctx.Err()
		}
	}
	if one != nil {
		return one(ctx, v.Version)
	}
	return at, nil
}

// singles returns the number of calls of PublishedOf since it was last called.
func (d *dates) singles() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.askedOne = nil }()
	return len(d.askedOne)
}

// asks returns the calls of Published since it was last called.
func (d *dates) asks() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.asked = nil }()
	return strings.Join(d.asked, "; ")
}

func (d *dates) set(give map[string]time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.give, d.err, d.takes = give, err, 0
}

// fixture is the layer and its table over a store in memory.
type fixture struct {
	*history.Registry
	ledger  history.Ledger
	storage *storetest.Memory
	next    *next
	dates   *dates
	mu      sync.Mutex
	failed  []error
}

func newFixture() *fixture {
	f := &fixture{storage: &storetest.Memory{}, next: &next{}, dates: &dates{}}
	f.restart()
	return f
}

// now is the start time of the tests with dates.
var now = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// later runs a test that starts at now.
func later(t *testing.T, run func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		run(t, newFixture())
		time.Sleep(10 * time.Second) // for work in the background
	})
}

// restart replaces the table, as in a new process.
func (f *fixture) restart() { f.restartOver(f.storage.Records()) }

func (f *fixture) restartOver(records store.Records) {
	f.Registry = &history.Registry{Next: f.next, FirstSeen: history.NewFirstSeen(history.FirstSeenConfig{
		Records: records, Ledger: ledger{f}, Dates: f.dates, Observe: f.observe,
	})}
}

// ledger is the ledger of a fixture, which is empty at first.
type ledger struct{ *fixture }

func (l ledger) Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error) {
	if l.ledger == nil {
		return modproxy.Record{}, fs.ErrNotExist
	}
	return l.ledger.Lookup(ctx, v)
}

func (f *fixture) observe(_ modproxy.Address, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = append(f.failed, err)
}

// failures returns the number of observed errors since it was last called.
func (f *fixture) failures() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.failed = nil }()
	return len(f.failed)
}

// list requests the versions of vpc from a registry that lists versions.
func (f *fixture) list(t testing.TB, versions string) {
	t.Helper()
	f.next.list(versions)
	if _, err := f.Versions(t.Context(), vpc); err != nil {
		t.Fatal(err)
	}
}

// firstSeenOf returns the first-seen times of a module.
func firstSeenOf(t testing.TB, f *history.FirstSeen, m modproxy.Address) modproxy.FirstSeen {
	t.Helper()
	s, err := f.Of(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// since returns the ages of versions in hours; "?" is a version that was not seen, and "untimed" a version without a time.
func since(s modproxy.FirstSeen, versions ...string) string {
	var list []string
	for _, version := range versions {
		_, seen := s.Of(version)
		switch at := s.Since(version); {
		case !seen:
			list = append(list, "?")
		case at.IsZero():
			list = append(list, "untimed")
		default:
			list = append(list, fmt.Sprintf("%.1f", time.Since(at).Hours()))
		}
	}
	return strings.Join(list, " ")
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// storages runs a test over each store. open returns a handle on the same records each time.
func storages(t *testing.T, run func(t *testing.T, open func() store.Records)) {
	t.Run("memory", func(t *testing.T) {
		m := &storetest.Memory{}
		run(t, m.Records)
	})
	t.Run("disk", func(t *testing.T) {
		dir, opened := t.TempDir(), (*disk.Directory)(nil)
		closeAll := func() {
			if opened != nil {
				if err := opened.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		t.Cleanup(closeAll)
		run(t, func() store.Records {
			closeAll()
			var err error
			if opened, err = disk.Open(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			return opened.Records()
		})
	})
}

// contested is a store in which another process changes records first, a number of times.
type contested struct {
	store.Records
	mu    sync.Mutex
	times int
	other func() error
}

func (c *contested) Put(ctx context.Context, r store.Record) (uint64, error) {
	c.mu.Lock()
	contest := c.times > 0
	c.times--
	c.mu.Unlock()
	if contest {
		if err := c.other(); err != nil {
			return 0, err
		}
	}
	return c.Records.Put(ctx, r)
}

var errDisk = errors.New("no disk")

func sorted(list []string) string {
	slices.Sort(list)
	return strings.Join(list, " ")
}
