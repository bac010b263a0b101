package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/store"
)

// documents caches answers that expire, see [Registry.Versions]. After a failed request, documents serves stale answers for a
// short pause without another request. After a slow one, it serves stale answers at once for a while. The first fields are set
// before start.
type documents[K question, V any] struct {
	source    source[K, V]
	op        string       // the operation, in errors
	store     *store.Store // nil: documents are in memory only
	maxMemory int64        // bytes of all documents in memory
	work      *flight.Pool
	lifetimes Lifetimes
	limit     int64 // bytes of all stored documents; zero: no limit
	trimmed   Kind  // the kind of the event after documents were removed for the sake of limit
	observe   func(Event)
	origin    func(K) string // the server that answers; nil means the registry of the question
	// fallback returns an answer that can be served without a document, marked as stale. It may be nil.
	fallback func(context.Context, K) (V, error)

	flights          flight.Group[K, V]
	memory           memory.Cache[K, *answer[V]]
	reading          slots.Semaphore            // for documents that are being read from the store
	retryAfter       memory.Cache[K, error]     // RetryLater of upstream
	missing          memory.Cache[K, error]     // ErrNotFound of upstream
	slowOrigins      memory.Cache[string, bool] // origins that answer late; true: or do not answer
	writtenSinceTrim atomic.Int64               // bytes that were put since the documents were last trimmed
}

// source requests documents, and encodes them for the store. Documents are immutable. size is about how many bytes a document has in
// memory.
type source[K comparable, V any] interface {
	// request returns the current document, given the stored one, which may be zero. The error is [modproxy.ErrNotFound] if the
	// document no longer exists.
	request(ctx context.Context, k K, stored V) (v V, size int64, err error)
	// learn receives a document that was not known before, from upstream or another process.
	learn(k K, v V)
	encode(V) ([]byte, error)
	decode(K, []byte) (v V, size int64, err error)
	// marked returns a document as it is served from the cache.
	marked(v V, stale bool) V
}

// answer is a document in memory.
type answer[V any] struct {
	value, stale V
	size         int64
	revision     uint64 // of the record in the store; zero: it is not stored
	requested    time.Time
	retryAt      atomic.Pointer[time.Time] // no refresh before this time
	expired      atomic.Bool               // it is known to be out of date
}

// newAnswer returns the answer for a document that is not stored.
func (d *documents[K, V]) newAnswer(v V, size int64, requested time.Time) *answer[V] {
	return &answer[V]{value: d.source.marked(v, false), stale: d.source.marked(v, true), size: size, requested: requested}
}

// fresh reports whether a needs no refresh. An answer from the future, as after the clock was set back, needs one.
func (a *answer[V]) fresh(limit time.Duration) bool {
	age := time.Since(a.requested)
	return !a.expired.Load() && age >= 0 && age < limit
}

const (
	slowAfter     = time.Second      // after it, a registry is slow, and a client with a stale answer or a fallback waits no longer
	slowPause     = 30 * time.Second // after a slow answer, clients do not wait for refreshes from the registry
	refreshPause  = 5 * time.Second  // after a failed refresh; stale answers are served meanwhile
	maxReading    = 4                // documents that are read from the store at the same time
	maxListMemory = 32 << 20         // bytes of versions documents in memory
	maxTries      = 3                // of an operation that another process can interfere with
	overhead      = 1 << 10          // bytes that a document counts in addition to its own; bounds the number of small documents
)

var errCrowdedStore = errors.New("many other documents are being read from the store")

func (d *documents[K, V]) start() {
	d.flights.Pool, d.flights.PerClient = d.work, true
	d.memory.Limit = d.maxMemory
	d.reading = slots.NewSemaphore(maxReading)
	if d.origin == nil {
		d.origin = K.registry
	}
	d.writtenSinceTrim.Add(d.limit) // the limit may have been larger before
}

// get returns the document for k. If upstream must answer and does not, get returns the fallback. Only upstream can report that
// a document does not exist.
func (d *documents[K, V]) get(ctx context.Context, k K) (none V, err error) {
	a, err := d.read(ctx, k)
	switch {
	case err != nil:
		return none, err
	case a == nil:
	case a.fresh(d.lifetimes.Fresh):
		return a.value, nil
	case time.Since(a.requested) <= d.lifetimes.MaxStale:
		return d.refreshed(ctx, k, a)
	}
	v, err := d.fromUpstream(ctx, k, a)
	if err == nil || errors.Is(err, modproxy.ErrNotFound) || d.fallback == nil {
		return v, err
	}
	fallback, errFallback := d.fallback(ctx, k)
	if errFallback != nil {
		return none, err
	}
	d.observe(k.event(StaleServed, 0, nil))
	return fallback, nil
}

// fromUpstream returns the answer of upstream for k. If there is a fallback, it waits less for a registry that was slow, and
// not for a registry that did not answer: a client that installs ten modules does not wait ten times for an unavailable
// registry.
func (d *documents[K, V]) fromUpstream(ctx context.Context, k K, before *answer[V]) (none V, err error) {
	if err := d.knownError(k); err != nil {
		return none, err
	}
	call, err := d.sharedRequest(ctx, k, before)
	if err != nil {
		return none, err
	}
	limit := clientWait
	if fails, slow := d.slowOrigins.Get(d.origin(k)); slow && d.fallback != nil {
		if _, err := d.fallback(ctx, k); err == nil && fails {
			limit = 0
		} else if err == nil {
			limit = slowAfter
		}
	}
	v, err := waitFor(ctx, call, limit)
	if err != nil && time.Since(call.Began()) >= clientWait {
		d.slowOrigins.Add(d.origin(k), true, slowPause, 0)
	}
	return v, err
}

// knownError returns the remembered error for which upstream receives no request for k, or nil.
func (d *documents[K, V]) knownError(k K) error {
	for _, known := range []*memory.Cache[K, error]{&d.missing, &d.retryAfter} {
		if err, ok := known.Get(k); ok {
			return err
		}
	}
	return nil
}

// refreshed returns the answer for k if a, the stored answer, is not fresh: the answer of upstream if it comes within slowAfter,
// else a. A client that installs ten modules does not wait ten times for an unavailable registry.
func (d *documents[K, V]) refreshed(ctx context.Context, k K, a *answer[V]) (V, error) {
	again := a.retryAt.Load()
	if _, held := d.retryAfter.Get(k); !held && (again == nil || !time.Now().Before(*again)) {
		_, slow := d.slowOrigins.Get(d.origin(k))
		if slow {
			ctx = modproxy.InBackground(ctx)
		}
		call, err := d.sharedRequest(ctx, k, a)
		if err == nil && !slow { // else the next request finds the answer
			v, err := waitFor(ctx, call, slowAfter-time.Since(call.Began()))
			switch {
			case err == nil, errors.Is(err, modproxy.ErrNotFound):
				return v, err
			case time.Since(call.Began()) >= slowAfter:
				d.slowOrigins.Add(d.origin(k), false, slowPause, 0)
			}
		}
	}
	d.observe(k.event(StaleServed, 0, nil))
	return a.stale, nil
}

// sharedRequest returns the running request for k, or starts one. before is the stored answer, or nil.
func (d *documents[K, V]) sharedRequest(ctx context.Context, k K, before *answer[V]) (*flight.Call[V], error) {
	return d.flights.Join(ctx, k, func(ctx context.Context) (none V, err error) {
		if a, ok := d.memory.Get(k); ok && a.fresh(d.lifetimes.Fresh) {
			return a.value, nil
		}
		if err := d.knownError(k); err != nil {
			return none, err
		}
		return d.request(ctx, k, before)
	})
}

// newRequest requests k from upstream. A request that was already running does not count, because its answer may be too old.
func (d *documents[K, V]) newRequest(ctx context.Context, k K, before *answer[V]) (V, error) {
	for {
		own := false
		call, err := d.flights.Join(ctx, k, func(ctx context.Context) (V, error) {
			own = true
			return d.request(ctx, k, before)
		})
		if err != nil {
			var none V
			return none, err
		}
		v, err := waitFor(ctx, call, requestTimeout+time.Second)
		if !isDone(call) || own {
			return v, err
		}
	}
}

// request requests k from upstream, and stores the answer.
func (d *documents[K, V]) request(ctx context.Context, k K, before *answer[V]) (v V, err error) {
	ctx, cancel := d.work.Detach(ctx, requestTimeout)
	defer cancel()
	if a, ok := d.memory.Get(k); ok {
		before = a
	} else if before == nil {
		before = &answer[V]{}
	}
	missing := d.missing.Begin(k)
	began := time.Now()
	v, size, err := d.source.request(ctx, k, before.value)
	took := time.Since(began)
	switch {
	case took >= slowAfter:
		d.slowOrigins.Add(d.origin(k), err != nil && !errors.Is(err, modproxy.ErrNotFound), slowPause, 0)
	case err == nil:
		d.slowOrigins.Drop(d.origin(k))
	}
	if err == nil {
		return d.keep(ctx, k, v, size, began, before.revision), nil
	}
	err = k.wrap(d.op, settle(late(ctx, err, requestTimeout)))
	if errors.Is(err, modproxy.ErrNotFound) {
		missing(err, d.lifetimes.Missing-took, 0)
		d.memory.Drop(k)
		if d.store == nil {
			return v, err
		}
		if err := d.store.Records.Delete(ctx, k.ref(), before.revision); err != nil && !errors.Is(err, store.ErrConflict) {
			d.observe(k.event(StoreFailed, 0, err))
		}
		return v, err
	}
	d.retryAfter.Add(k, err, holdFor(err), 0)
	again := time.Now().Add(refreshPause)
	before.retryAt.Store(&again)
	return v, err
}
