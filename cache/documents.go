package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/store"
)

// documents keeps answers that get old, see [Registry.Versions]. After a question that failed there is a short pause,
// in which stale answers are served and nothing is asked; after one that took long, stale answers are served at once
// for a while. Its first fields are set before start.
type documents[K question, V document[V]] struct {
	source    source[K, V]
	op        string       // what is asked for, in errors
	store     *store.Store // nil: they are in memory only
	memory    int64        // bytes of documents in memory
	work      *flight.Pool
	fresh     time.Duration
	maxStale  time.Duration
	missesFor time.Duration // how long an ErrNotFound of upstream is remembered
	limit     int64         // bytes of all kept documents; zero: no bound
	trimmed   Kind          // of the event when some were removed to keep to limit
	observe   func(Event)
	// spare returns what can be served without a document, marked as stale; nil: nothing.
	spare func(context.Context, K) (V, error)

	flights flight.Group[K, V]
	hot     memory.Cache[K, *answer[V]]
	reading slots.Semaphore            // for documents that are being read from the store
	held    memory.Cache[K, error]     // RetryLater of upstream
	missing memory.Cache[K, error]     // ErrNotFound of upstream
	slow    memory.Cache[string, bool] // registries that answer late; true: or do not answer
	grown   atomic.Int64               // bytes that were put since the documents were last trimmed
}

// source asks for documents, and knows their form in a store.
type source[K comparable, V any] interface {
	// ask returns the document as it is from now on, given what is kept, which may be zero. [modproxy.ErrNotFound] means
	// that there is none any more.
	ask(ctx context.Context, k K, kept V) (V, error)
	// learn is called with a document that was not known before, of upstream or of another process.
	learn(k K, v V)
	encode(V) ([]byte, error)
	decode(K, []byte) (V, error)
}

// document is an answer as it is served. It is not changed.
type document[V any] interface {
	size() int64         // in memory, in bytes, about
	marked(stale bool) V // as it is served from the cache
}

// answer is a document as it is served from memory.
type answer[V document[V]] struct {
	kept, stale V
	revision    uint64 // of the record in the store; zero: it could not be kept
	asked       time.Time
	again       atomic.Pointer[time.Time] // no refresh before
	old         atomic.Bool               // it is known not to be current
}

func newAnswer[V document[V]](v V, asked time.Time, revision uint64) *answer[V] {
	return &answer[V]{kept: v.marked(false), stale: v.marked(true), revision: revision, asked: asked}
}

// fresh reports whether a needs no refresh. An answer from the future, as after the clock was set back, does.
func (a *answer[V]) fresh(limit time.Duration) bool {
	age := time.Since(a.asked)
	return !a.old.Load() && age >= 0 && age < limit
}

const (
	soon         = time.Second      // how long a refresh is waited for before the stale document is served
	slowPause    = 30 * time.Second // how long refreshes of a registry are not waited for after one that took longer
	refreshPause = 5 * time.Second  // after a failed refresh, while stale answers are served
	maxReading   = 4                // documents that are read from the store at the same time
	maxHot       = 32 << 20         // bytes of versions documents in memory
	maxTries     = 3                // of something that another process can get in the way of
	overhead     = 1 << 10          // bytes that a document counts beside its own, which bounds the number of small ones
)

var errCrowdedStore = errors.New("many other documents are being read from the store")

func (d *documents[K, V]) start() {
	d.flights.Pool, d.flights.PerClient = d.work, true
	d.hot.Limit = d.memory
	d.reading = slots.NewSemaphore(maxReading)
	d.grown.Add(d.limit) // the bound may have been larger before
}

// get returns the document for k. If upstream has to answer and does not, it returns the spare one. Only upstream can say
// that there is none.
func (d *documents[K, V]) get(ctx context.Context, k K) (none V, err error) {
	a, err := d.read(ctx, k)
	switch {
	case err != nil:
		return none, err
	case a == nil:
	case a.fresh(d.fresh):
		return a.kept, nil
	case time.Since(a.asked) <= d.maxStale:
		return d.refreshed(ctx, k, a)
	}
	v, err := d.answered(ctx, k, a)
	if err == nil || errors.Is(err, modproxy.ErrNotFound) || d.spare == nil {
		return v, err
	}
	spare, errSpare := d.spare(ctx, k)
	if errSpare != nil {
		return none, err
	}
	d.observe(k.event(StaleServed, 0, nil))
	return spare, nil
}

// answered returns the answer of upstream for k. If there is a spare document, it waits less for a registry that answered
// late, and not for one that did not answer: a client that installs ten modules does not wait ten times for a registry that
// is unavailable.
func (d *documents[K, V]) answered(ctx context.Context, k K, before *answer[V]) (none V, err error) {
	if err := d.refused(k); err != nil {
		return none, err
	}
	call, err := d.ask(ctx, k, before)
	if err != nil {
		return none, err
	}
	limit := patience
	if fails, slow := d.slow.Get(k.registry()); slow && d.spare != nil {
		if _, err := d.spare(ctx, k); err == nil && fails {
			limit = 0
		} else if err == nil {
			limit = soon
		}
	}
	v, err := waitFor(ctx, call, limit)
	if err != nil && time.Since(call.Began()) >= patience {
		d.slow.Add(k.registry(), true, slowPause, 0)
	}
	return v, err
}

// refused returns why upstream is not asked for k, or nil.
func (d *documents[K, V]) refused(k K) error {
	for _, known := range []*memory.Cache[K, error]{&d.missing, &d.held} {
		if err, ok := known.Get(k); ok {
			return err
		}
	}
	return nil
}

// refreshed returns the answer for k when a, which is kept, is not fresh: the one of upstream if it comes soon, else a.
// A client that installs ten modules does not wait ten times for a registry that is down.
func (d *documents[K, V]) refreshed(ctx context.Context, k K, a *answer[V]) (V, error) {
	again := a.again.Load()
	if _, held := d.held.Get(k); !held && (again == nil || !time.Now().Before(*again)) {
		_, slow := d.slow.Get(k.registry())
		if slow {
			ctx = modproxy.InBackground(ctx)
		}
		call, err := d.ask(ctx, k, a)
		if err == nil && !slow { // else the next question finds the answer
			v, err := waitFor(ctx, call, soon-time.Since(call.Began()))
			switch {
			case err == nil, errors.Is(err, modproxy.ErrNotFound):
				return v, err
			case time.Since(call.Began()) >= soon:
				d.slow.Add(k.registry(), false, slowPause, 0)
			}
		}
	}
	d.observe(k.event(StaleServed, 0, nil))
	return a.stale, nil
}

// read returns what is known about k without asking upstream, or nil. What is in memory is compared with the store
// every recallFor; while that fails, it counts. Few documents are read at the same time, because that takes several
// times their size: the error is [modproxy.RetryLater] when it is not k's turn within patience.
func (d *documents[K, V]) read(ctx context.Context, k K) (*answer[V], error) {
	if a, ok := d.hot.Get(k); ok {
		return a, nil
	}
	done, crowded := d.turn(ctx)
	defer done()
	seen, ok := d.hot.Get(k)
	switch {
	case ok, seen != nil && crowded != nil && ctx.Err() != nil:
		return seen, nil
	case crowded != nil && seen == nil:
		return nil, retrySoon(crowded)
	}
	remember := d.hot.Begin(k)
	a := seen
	if crowded == nil {
		var err error
		if a, err = d.load(context.WithoutCancel(ctx), k, seen); err != nil {
			d.observe(k.event(StoreFailed, 0, err))
			a = seen
		}
	}
	if a == nil {
		d.hot.Drop(k)
		return nil, nil
	}
	remember(a, recallFor, a.kept.size())
	return a, nil
}

// glance is read for whoever looks through very many documents: they do not take the place of others in memory.
func (d *documents[K, V]) glance(ctx context.Context, k K) (*answer[V], error) {
	if a, ok := d.hot.Get(k); ok || d.store == nil {
		return a, nil
	}
	done, crowded := d.turn(ctx)
	defer done()
	if crowded != nil {
		return nil, retrySoon(crowded)
	}
	return d.load(ctx, k, nil)
}

// turn waits until a document may be read from the store, for patience at most; done is called afterwards, be there an error or not.
func (d *documents[K, V]) turn(ctx context.Context) (done func(), crowded error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errCrowdedStore)
	defer cancel()
	if done, crowded = d.reading.Take(ctx); crowded != nil {
		done = func() {}
	}
	return done, crowded
}

// load returns the answer for k that is kept, or nil; or what was seen in memory if that is the same, or newer and
// could not be kept.
func (d *documents[K, V]) load(ctx context.Context, k K, seen *answer[V]) (*answer[V], error) {
	if d.store == nil {
		return seen, nil
	}
	rec, err := d.store.Records.Get(ctx, k.ref())
	switch {
	case errors.Is(err, fs.ErrNotExist) && seen != nil && seen.revision == 0:
		return seen, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case seen != nil && seen.revision == rec.Revision:
		return seen, nil
	}
	a, err := d.parse(k, rec)
	switch {
	case err != nil:
		return nil, err
	case seen != nil && seen.revision == 0 && seen.asked.After(a.asked):
		return seen, nil
	}
	d.source.learn(k, a.kept)
	return a, nil
}

func (d *documents[K, V]) parse(k K, rec store.Record) (*answer[V], error) {
	asked, rest, err := splitAsked(rec.Value)
	if err != nil {
		return nil, err
	}
	v, err := d.source.decode(k, rest)
	if err != nil {
		return nil, err
	}
	return newAnswer(v, asked, rec.Revision), nil
}

// A kept document begins with when it was asked for, in Unix nanoseconds.
func splitAsked(value []byte) (asked time.Time, rest []byte, err error) {
	if len(value) < 8 {
		return asked, nil, fmt.Errorf("%w: a kept document of %d bytes", store.ErrDamaged, len(value))
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(value))), value[8:], nil
}

// ask asks upstream for k, unless that is under way. What is kept is before, or nil.
func (d *documents[K, V]) ask(ctx context.Context, k K, before *answer[V]) (*flight.Call[V], error) {
	return d.flights.Join(ctx, k, func(ctx context.Context) (none V, err error) {
		if a, ok := d.hot.Get(k); ok && a.fresh(d.fresh) {
			return a.kept, nil
		}
		if err := d.refused(k); err != nil {
			return none, err
		}
		return d.askNow(ctx, k, before)
	})
}

// askAnew asks upstream for k. The answer to a question that was under way before may be too old.
func (d *documents[K, V]) askAnew(ctx context.Context, k K, before *answer[V]) (V, error) {
	for {
		own := false
		call, err := d.flights.Join(ctx, k, func(ctx context.Context) (V, error) {
			own = true
			return d.askNow(ctx, k, before)
		})
		if err != nil {
			var none V
			return none, err
		}
		v, err := waitFor(ctx, call, askTimeout+time.Second)
		if !isDone(call) || own {
			return v, err
		}
	}
}

// askNow asks upstream for k, and keeps the answer.
func (d *documents[K, V]) askNow(ctx context.Context, k K, before *answer[V]) (v V, err error) {
	ctx, cancel := d.work.Detach(ctx, askTimeout)
	defer cancel()
	if a, ok := d.hot.Get(k); ok {
		before = a
	} else if before == nil {
		before = &answer[V]{}
	}
	missing := d.missing.Begin(k)
	asked := time.Now()
	v, err = d.source.ask(ctx, k, before.kept)
	took := time.Since(asked)
	switch {
	case took >= soon:
		d.slow.Add(k.registry(), err != nil && !errors.Is(err, modproxy.ErrNotFound), slowPause, 0)
	case err == nil:
		d.slow.Drop(k.registry())
	}
	if err == nil {
		return d.keep(ctx, k, v, asked, before.revision), nil
	}
	err = k.wrap(d.op, settle(late(ctx, err, askTimeout)))
	if errors.Is(err, modproxy.ErrNotFound) {
		missing(err, d.missesFor-took, 0)
		d.hot.Drop(k)
		if d.store == nil {
			return v, err
		}
		if err := d.store.Records.Delete(ctx, k.ref(), before.revision); err != nil && !errors.Is(err, store.ErrConflict) {
			d.observe(k.event(StoreFailed, 0, err))
		}
		return v, err
	}
	d.held.Add(k, err, holdFor(err), 0)
	again := time.Now().Add(refreshPause)
	before.again.Store(&again)
	return v, err
}

// keep keeps v and returns it, or a newer answer that another process has kept meanwhile. The answer is served also
// when the store fails.
func (d *documents[K, V]) keep(ctx context.Context, k K, v V, asked time.Time, revision uint64) V {
	a := newAnswer(v, asked, 0)
	if d.store == nil {
		d.remember(k, a)
		return v
	}
	text, err := d.source.encode(v)
	value := append(binary.BigEndian.AppendUint64(nil, uint64(asked.UnixNano())), text...)
	for try := 1; err == nil; try++ {
		var now uint64
		now, err = d.store.Records.Put(ctx, store.Record{Ref: k.ref(), Value: value, Revision: revision})
		if err == nil {
			a.revision = now
			d.trim(k.ref().Kind, int64(len(value)))
			break
		}
		if !errors.Is(err, store.ErrConflict) || try == maxTries {
			break
		}
		var rec store.Record
		if rec, err = d.store.Records.Get(ctx, k.ref()); errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) {
			rec, err = store.Record{}, nil
		}
		if newer, errParse := d.parse(k, rec); errParse == nil && newer.asked.After(asked) {
			a, v = newer, newer.kept
			break
		}
		revision = rec.Revision
	}
	if err != nil {
		d.observe(k.event(StoreFailed, 0, err))
	}
	d.remember(k, a)
	d.source.learn(k, v)
	return v
}

// remember remembers a as it is now.
func (d *documents[K, V]) remember(k K, a *answer[V]) {
	d.missing.Drop(k)
	d.hot.Add(k, a, recallFor, a.kept.size())
}

// outdate makes the next question for k ask upstream, if what is kept is not current. Nobody waits until it is read.
func (d *documents[K, V]) outdate(k K, current func(V) bool) {
	look := func() {
		if a, _ := d.read(d.work.Context(), k); a != nil && !current(a.kept) {
			a.old.Store(true)
		}
	}
	if _, ok := d.hot.Get(k); ok {
		look()
	} else {
		_ = d.work.Go("", look) // if too much is running, the document is old soon enough
	}
}
