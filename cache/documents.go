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
	"github.com/modproxy/modproxy/store"
)

// documents keeps answers that get old. An answer younger than fresh is served as it is.
// After that upstream is asked again, and the kept answer, up to maxStale, is served and
// marked as stale when the new one does not come within a second, or the question fails.
// After a question that failed there is a short pause, in which stale answers are served
// and nothing is asked; after one that took long, stale answers are served at once for a
// while. Its fields are set before start.
type documents[K interface {
	comparable
	question
}, V document[V]] struct {
	source   source[K, V]
	store    *store.Store
	set      settings
	work     *background
	offline  bool
	limit    int64      // bytes of all kept documents; zero: no bound
	packages store.Kind // of the packages whose keys begin with the key of a document
	observe  func(Event)

	flights flights[K, V]
	hot     *answers[K, V]
	reading chan struct{}          // one for each document that is being read from the store
	held    *memory[K, error]      // RetryLater of upstream
	missing *memory[K, error]      // ErrNotFound of upstream
	slow    *memory[string, error] // registries that answer late
	grown   atomic.Int64           // bytes that were put since the documents were last trimmed
}

// source asks for documents, and knows their form in a store.
type source[K comparable, V any] interface {
	// ask returns the document as it is from now on, given what is kept, which may be
	// zero. [modproxy.ErrNotFound] means that there is no document any more.
	ask(ctx context.Context, k K, kept V) (V, error)
	encode(V) ([]byte, error)
	decode([]byte) (V, error)
}

// document is an answer as it is served. It is not changed.
type document[V any] interface {
	size() int64         // in memory, in bytes, about
	marked(stale bool) V // as it is served from the cache
}

const (
	soon         = time.Second      // how long a refresh is waited for before the stale document is served
	slowPause    = 30 * time.Second // how long refreshes of a registry are not waited for after one that took longer than soon
	refreshPause = 5 * time.Second  // after a failed refresh, while stale answers are served
	maxReading   = 4                // documents that are read from the store at the same time
	maxHot       = 32 << 20         // bytes of documents in memory
)

var (
	errSlow    = errors.New("the registry did not answer soon")
	errReading = errors.New("many other documents are being read from the store")
)

func (d *documents[K, V]) start() {
	d.hot = newAnswers[K, V](maxHot)
	d.reading = make(chan struct{}, maxReading)
	d.held = newMemory[K, error]()
	d.missing = newMemory[K, error]()
	d.slow = newMemory[string, error]()
	d.grown.Add(d.limit) // the bound may have been larger before
}

// get returns the document for k. Its error is [fs.ErrNotExist] when none is kept and
// nothing is asked.
func (d *documents[K, V]) get(ctx context.Context, k K) (V, error) {
	var none V
	a, ok := d.hot.get(k)
	if !ok {
		if err, ok := d.missing.get(k); ok {
			return none, err
		}
	}
	if !ok || !a.known() {
		var err error
		if a, err = d.read(ctx, k); err != nil {
			return none, k.wrap("versions", err)
		}
	}
	now := time.Now()
	switch {
	case a == nil && d.offline:
		return none, fs.ErrNotExist
	case a == nil:
	case a.fresh(now, d.set.fresh):
		return a.kept, nil
	case d.offline:
		return a.stale, nil
	case now.Sub(a.asked) <= d.set.maxStale:
		return d.refreshed(ctx, k, a)
	}
	if err, ok := d.held.get(k); ok {
		return none, err
	}
	call, err := d.ask(ctx, k)
	if err != nil {
		return none, k.wrap("versions", err)
	}
	return call.within(ctx, d.set.wait, "versions", k)
}

// refreshed returns the answer for k when a, which is kept, is not fresh: the one of
// upstream if it comes soon, else a. A client that installs ten modules does not wait ten
// times for a registry that is down.
func (d *documents[K, V]) refreshed(ctx context.Context, k K, a *answer[V]) (V, error) {
	if _, held := d.held.get(k); held || time.Now().Before(a.again) {
		return d.serveStale(k, a)
	}
	call, err := d.ask(ctx, k)
	if _, slow := d.slow.get(k.registry()); err != nil || slow {
		return d.serveStale(k, a) // the next question finds the answer
	}
	v, err := call.within(ctx, soon-time.Since(call.began), "versions", k)
	switch {
	case err == nil, errors.Is(err, modproxy.ErrNotFound):
		return v, err
	case time.Since(call.began) >= soon:
		d.slow.add(k.registry(), errSlow, slowPause)
	}
	return d.serveStale(k, a)
}

func (d *documents[K, V]) serveStale(k K, a *answer[V]) (V, error) {
	d.observe(k.event(StaleServed, nil))
	return a.stale, nil
}

// read returns what is known about k without asking upstream, or nil, and compares what
// is in memory with the store. Few documents are read at the same time, because reading
// takes several times their size: the error is [modproxy.RetryLater] when it is not k's
// turn for longer than wait.
func (d *documents[K, V]) read(ctx context.Context, k K) (*answer[V], error) {
	patience := time.NewTimer(d.set.wait)
	defer patience.Stop()
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-patience.C:
		return nil, &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: errReading}
	case <-ctx.Done():
		return nil, &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: context.Cause(ctx)}
	}
	seen, ok := d.hot.get(k)
	if ok && seen.known() {
		return seen, nil
	}
	rec, err := d.store.Records.Get(context.WithoutCancel(ctx), k.ref())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.hot.remove(k)
		return nil, nil
	case err == nil && ok && rec.Revision == seen.revision:
		return d.hot.replace(k, seen, func(a *answer[V]) { a.read = time.Now() }), nil
	case err == nil:
		var a *answer[V]
		if a, err = d.parse(rec); err == nil {
			d.hot.add(k, a)
			return a, nil
		}
	}
	d.observe(k.event(StoreFailed, err))
	return seen, nil // which is nil when nothing is known
}

func (d *documents[K, V]) parse(rec store.Record) (*answer[V], error) {
	asked, rest, err := splitAsked(rec.Value)
	if err != nil {
		return nil, err
	}
	v, err := d.source.decode(rest)
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

// ask asks upstream for k, unless that is under way.
func (d *documents[K, V]) ask(ctx context.Context, k K) (*call[V], error) {
	return d.flights.join(ctx, d.work, modproxy.AskerOf(ctx), k, func(ctx context.Context) (V, error) {
		var none V
		if a, ok := d.hot.get(k); ok && a.fresh(time.Now(), d.set.fresh) {
			return a.kept, nil
		}
		for _, known := range []*memory[K, error]{d.missing, d.held} {
			if err, ok := known.get(k); ok {
				return none, err
			}
		}
		return d.askNow(ctx, k)
	})
}

// askAnew asks upstream for k. The answer to a question that was under way before is not
// good enough: it may be older.
func (d *documents[K, V]) askAnew(ctx context.Context, k K) (V, error) {
	for {
		own := false
		call, err := d.flights.join(ctx, d.work, modproxy.AskerOf(ctx), k, func(ctx context.Context) (V, error) {
			own = true
			return d.askNow(ctx, k)
		})
		if err != nil {
			var none V
			return none, k.wrap("versions", err)
		}
		v, err := call.within(ctx, askTimeout+time.Second, "versions", k)
		select {
		case <-call.done:
			if own {
				return v, err
			}
		default:
			return v, err
		}
	}
}

// askNow asks upstream for k, and keeps the answer.
func (d *documents[K, V]) askNow(ctx context.Context, k K) (V, error) {
	ctx, cancel := d.work.detach(ctx, askTimeout)
	defer cancel()
	var before V
	var revision uint64
	if a, ok := d.hot.get(k); ok {
		before, revision = a.kept, a.revision
	} else if rec, err := d.store.Records.Get(ctx, k.ref()); err == nil {
		revision = rec.Revision
		if a, err := d.parse(rec); err == nil {
			before = a.kept
		}
	}
	asked := time.Now()
	v, err := d.source.ask(ctx, k, before)
	took := time.Since(asked)
	switch {
	case took >= soon:
		d.slow.add(k.registry(), errSlow, slowPause)
	case err == nil:
		d.slow.drop(k.registry())
	}
	if err == nil {
		return d.keep(ctx, k, v, asked, revision), nil
	}
	err = k.wrap("versions", settle(late(ctx, err, askTimeout), askTimeout))
	if errors.Is(err, modproxy.ErrNotFound) {
		d.missing.add(k, err, d.set.missing-took)
		d.hot.remove(k)
		if err := d.store.Records.Delete(ctx, k.ref(), revision); err != nil && !errors.Is(err, store.ErrConflict) {
			d.observe(k.event(StoreFailed, err))
		}
		return v, err
	}
	d.held.add(k, err, holdFor(err))
	if a, ok := d.hot.get(k); ok {
		d.hot.replace(k, a, func(a *answer[V]) { a.again = time.Now().Add(refreshPause) })
	}
	return v, err
}

// keep keeps v, unless another process has kept a newer answer meanwhile. A store that
// fails is told of, but does not make an answer unfit to be served.
func (d *documents[K, V]) keep(ctx context.Context, k K, v V, asked time.Time, revision uint64) V {
	rec, err := d.put(ctx, k, v, asked, revision)
	if err == nil && rec.Value != nil { // the newer one
		var a *answer[V]
		if a, err = d.parse(rec); err == nil {
			d.hot.add(k, a)
			return a.kept
		}
	}
	if err != nil {
		d.observe(k.event(StoreFailed, err))
	}
	d.missing.drop(k)
	d.hot.add(k, newAnswer(v, asked, rec.Revision))
	return v
}

// put puts v in the store. A record with a value is a newer one that is there instead.
func (d *documents[K, V]) put(ctx context.Context, k K, v V, asked time.Time, revision uint64) (store.Record, error) {
	text, err := d.source.encode(v)
	if err != nil {
		return store.Record{}, err
	}
	value := append(binary.BigEndian.AppendUint64(nil, uint64(asked.UnixNano())), text...)
	for try := 1; ; try++ {
		revision, err = d.store.Records.Put(ctx, store.Record{Ref: k.ref(), Value: value, Revision: revision})
		switch {
		case err == nil:
			d.trim(k.ref().Kind, int64(len(value)))
			return store.Record{Revision: revision}, nil
		case !errors.Is(err, store.ErrConflict) || try == maxTries:
			return store.Record{}, err
		}
		now, err := d.store.Records.Get(ctx, k.ref())
		switch {
		case err == nil:
			revision = now.Revision
			if at, _, err := splitAsked(now.Value); err == nil && at.After(asked) {
				return now, nil
			}
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrDamaged):
			revision = 0
		default:
			return store.Record{}, err
		}
	}
}

// maxTries is how often something is tried that another process can get in the way of.
const maxTries = 3

// outdate makes the next question for k ask upstream, if what is kept is not current.
// Nobody waits until a document is read for it.
func (d *documents[K, V]) outdate(k K, current func(V) bool) {
	look := func(a *answer[V]) {
		if !current(a.kept) {
			d.hot.replace(k, a, func(a *answer[V]) { a.old = true })
		}
	}
	if a, ok := d.hot.get(k); ok {
		look(a)
		return
	}
	d.work.start("", func() { // when too much goes on, it is old soon enough
		if a, err := d.read(d.work.ending, k); err == nil && a != nil {
			look(a)
		}
	})
}
