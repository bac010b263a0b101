// Package cache is a registry that keeps what another registry answers.
//
// Invariant: what is kept is served without asking for it again, and a package
// is served to its end only when its bytes are those that its record names. A
// package is answered after its blob and then its record are durable, in that
// order; the first record of a version is the record of that version for good.
//
// What is asked of the registry below is asked once, however many wait for it,
// and goes on when none of them waits any more. Trouble there is not absence:
// only [modproxy.ErrNotFound] is remembered as missing, and briefly.
//
// The stores are not trusted: an [Index] tells by itself when a record is
// damaged, and blobs are checked here whenever they are read.
package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/modproxy/modproxy"
)

// Registry keeps the answers and packages of Next. Its fields are set before
// the first question and not changed afterwards. It is safe for concurrent use.
type Registry struct {
	// Next is asked for what is not kept. Nil means offline: nothing is asked,
	// and what is kept is served whatever its age.
	Next  modproxy.Registry
	Index Index
	Blobs Blobs
	// References yields every blob that a record of any kind needs, which it keeps from
	// being removed as long as it does. Nil: those of the package records of Index.
	References func() iter.Seq2[Reference, error]
	// Uses keeps when packages were last used. Nil: it is forgotten with the
	// process.
	Uses Uses

	Fresh    time.Duration // how long a versions document is served without asking again; zero means 5m
	MaxStale time.Duration // how long after it was asked for a document is served while Next fails; zero means 720h
	Missing  time.Duration // how long a not found, or a failed fetch, is remembered; zero means 30s

	// Wait is how long Versions and Location wait for Next before they answer
	// [modproxy.RetryLater]; the question goes on. Zero means 3s.
	Wait time.Duration
	// FetchTimeout ends one fetch of a package; zero means 15m.
	FetchTimeout time.Duration
	// MaxSize bounds the bytes of all packages that are kept, those that are being
	// written included. To make room for a package those go that were not used for
	// longest, and are fetched again when they are asked for; their records stay.
	// What is being read or fetched does not go, nor what is pinned. Zero: no bound.
	MaxSize int64
	// Beside is how many bytes Blobs has beside its blobs, which count to MaxSize
	// and do not go: what was set aside. It is asked whenever room is made. Nil:
	// none.
	Beside func() (int64, error)
	// Pinned tells whether the packages of a module stay, whatever room is needed;
	// [Registry.Discard] removes them all the same. Nil: none do.
	Pinned func(modproxy.Module) bool
	// Memory bounds the bytes of packages that are held in memory, those that
	// are being served from it included. No package larger than an eighth of it
	// is held. Zero means 64 MiB, a negative number none.
	Memory int64
	// MaxVersions is how many bytes Index may have of versions documents, which may
	// be exceeded by an eighth for a while; [Index.TrimVersions] says which ones go.
	// Zero: any number.
	MaxVersions int64
	// Fetches is the number of packages fetched at the same time; further ones
	// wait their turn. Zero means 8.
	Fetches int
	// Observe is told what happens. It is called in the middle of the work, by
	// many goroutines at once, and should be quick. Nil is fine.
	Observe func(Event)

	once sync.Once
	set  settings

	asking   *background // questions for versions and locations
	fetching *background // fetches of packages
	end      context.CancelFunc
	turns    *turns

	listings  flights[modproxy.Module, *modproxy.Versions]
	locations flights[key, modproxy.Location]
	fetches   flights[key, *PackageRecord]
	loads     singleflight.Group // by digest

	answers *answers                           // versions, hot
	reading chan struct{}                      // one for each document that is being read from Index
	records *lru.Cache[key, recalled]          // of packages whose blob was there when last looked at
	located *lru.Cache[key, modproxy.Location] // of packages that are being fetched
	memory  *memory
	marks   *remembered
	room    *room
	grown   atomic.Int64 // bytes of versions documents since they were last trimmed
	flushed atomic.Int64 // when uses were last written down, in Unix milliseconds

	forgets [64]atomic.Uint64 // how often Forget was called, by a hash of the module

	held    refusals[modproxy.Module] // RetryLater of Next
	missing refusals[key]             // ErrNotFound of Next; no version means the module
	failed  refusals[key]             // FetchFailed
	slow    refusals[string]          // registries, by their host, that answer late

	seed  maphash.Seed
	locks [64]sync.Mutex
}

var _ modproxy.Registry = (*Registry)(nil)

const (
	askTimeout   = time.Minute             // of one detached question for versions or a location
	refreshPause = 5 * time.Second         // after a failed refresh, while stale answers are served
	tellWithin   = 3500 * time.Millisecond // for Location, with the fetch that it starts: clients give it ten seconds, some five
	fixedPause   = 24 * time.Hour          // after a fetch that failed with what cannot change
	storagePause = 5 * time.Second         // after a fetch that the storage failed
	maxHold      = 24 * time.Hour          // the longest RetryLater that is obeyed
	flushPause   = 5 * time.Minute         // between writing down when packages were last used
	closeGrace   = time.Second             // for background work to notice that it was ended
	recallFor    = 3 * time.Second         // a package record; others may change what counts in the stores

	maxAsking    = 1024     // questions under way
	maxFetching  = 1024     // fetches under way and waiting their turn
	maxRecords   = 16 << 10 // package records in memory
	maxRefusals  = 16 << 10 // of each kind
	maxAnswers   = 32 << 20 // bytes of versions documents in memory
	maxDocument  = 64 << 20 // bytes of a kept versions document, well over what upstream may send
	maxMarks     = 16 << 20 // bytes of what is remembered of packages that were checked: 1/800 of their size
	maxReading   = 4        // documents that are read from the index at the same time
	defaultBytes = 64 << 20
)

// settings are the durations with their zero values filled in.
type settings struct {
	fresh, maxStale, missing, wait, fetch time.Duration
}

// key is one version of one module.
type key struct {
	modproxy.Module
	version string
}

func (r *Registry) start() {
	or := func(d, zero time.Duration) time.Duration {
		if d == 0 {
			return zero
		}
		return d
	}
	r.set = settings{
		fresh:    or(r.Fresh, 5*time.Minute),
		maxStale: or(r.MaxStale, 720*time.Hour),
		missing:  or(r.Missing, 30*time.Second),
		wait:     or(r.Wait, 3*time.Second),
		fetch:    or(r.FetchTimeout, 15*time.Minute),
	}
	turns, bytes := r.Fetches, r.Memory
	if turns <= 0 {
		turns = 8
	}
	if bytes == 0 {
		bytes = defaultBytes
	}
	ending, end := context.WithCancel(context.Background())
	r.end = end
	r.asking = &background{ending: ending, limit: maxAsking}
	r.fetching = &background{ending: ending, limit: 2 * maxFetching} // those beyond maxFetching find no turn to wait for
	r.turns = newTurns(turns)
	r.answers = newAnswers(maxAnswers)
	r.reading = make(chan struct{}, maxReading)
	r.records = newLRU[key, recalled](maxRecords)
	r.located = newLRU[key, modproxy.Location](maxRecords)
	r.memory = newMemory(bytes)
	r.marks = newRemembered()
	r.held = newRefusals[modproxy.Module]()
	r.missing = newRefusals[key]()
	r.failed = newRefusals[key]()
	r.slow = newRefusals[string]()
	r.seed = maphash.MakeSeed()
	r.room = newRoom(r.MaxSize)
	r.flushed.Store(time.Now().UnixMilli())
	r.grown.Store(r.MaxVersions)     // it may have been larger before
	r.asking.start("", r.settleRoom) // it is open and idle
}

// Start begins to count what is kept, and evicts what is over MaxSize, in the
// background; else the first question does.
func (r *Registry) Start() { r.once.Do(r.start) }

// Close waits for what goes on in the background, at most until ctx ends; then
// it ends that work. Nothing is asked of Next afterwards; what is kept is still
// served. Its error tells that work was ended.
//
// The stores are closed after it.
func (r *Registry) Close(ctx context.Context) error {
	r.once.Do(r.start)
	r.asking.close()
	r.fetching.close()
	idle := make(chan struct{})
	go func() {
		r.asking.work.Wait()
		r.fetching.work.Wait()
		close(idle)
	}()
	defer r.flushUses()
	defer r.end()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	r.end()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-idle:
	case <-grace.C:
	}
	return fmt.Errorf("work of the cache was ended before it was done: %w", ctx.Err())
}

// Fetching are the fetches that are under way: "MODULE VERSION", and a channel that is
// closed when the fetch has ended.
func (r *Registry) Fetching() map[string]<-chan struct{} {
	all := map[string]<-chan struct{}{}
	for k, c := range r.fetches.underWay() {
		all[k.Module.String()+" "+k.version] = c.done
	}
	return all
}

// lock is held while the record, or the blob, that k names is read in order to
// be changed.
func lock[K comparable](r *Registry, k K) (unlock func()) {
	mu := &r.locks[maphash.Comparable(r.seed, k)%uint64(len(r.locks))]
	mu.Lock()
	return mu.Unlock
}

var (
	errOffline        = &modproxy.Lasting{Err: errors.New("not kept, and modproxy is offline")}
	errEvicted        = &modproxy.Lasting{Err: errors.New("evicted, and modproxy is offline")}
	errDamagedOffline = &modproxy.Lasting{Err: errors.New("what is kept is damaged or missing, and modproxy is offline")}
	errReading        = errors.New("many other versions documents are being read from the index")
	errClosing        = fmt.Errorf("%w: modproxy is shutting down", modproxy.ErrUnavailable)
)

// wrap adds the question to err, unless a layer below has.
func (k key) wrap(op string, err error) error {
	var named *modproxy.Error
	if errors.As(err, &named) {
		return err
	}
	return &modproxy.Error{Op: op, Module: k.Module, Version: k.version, Err: err}
}

// settle makes err, of a question that did not run in its caller's context, an
// answer to those who wait: the context that ended was not theirs. A layer below has
// its own times, and says itself when one of them is over.
func (k key) settle(op string, err error, timeout time.Duration) error {
	var full *modproxy.NoSpace
	if notWritable(err) && !errors.As(err, &full) {
		return k.wrap(op, &modproxy.NoSpace{Err: err})
	}
	for _, known := range []error{modproxy.ErrInvalid, modproxy.ErrUnauthorized, modproxy.ErrDenied,
		modproxy.ErrNotFound, modproxy.ErrChanged, modproxy.ErrUnavailable} {
		if errors.Is(err, known) {
			return k.wrap(op, err)
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return k.wrap(op, fmt.Errorf("%w: not done within %v", modproxy.ErrUnavailable, timeout))
	case errors.Is(err, context.Canceled):
		return k.wrap(op, fmt.Errorf("%w: ended before it was done", modproxy.ErrUnavailable))
	}
	return k.wrap(op, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err))
}

// late is err, of a question in ctx, and if ctx ended because its time was over, says
// so before all else.
func late(ctx context.Context, err error, timeout time.Duration) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: not done within %v: %w", modproxy.ErrUnavailable, timeout, err)
	}
	return err
}
