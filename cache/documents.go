package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// documents keeps versions documents, which get old. An answer younger than Fresh is served as it is. After that
// upstream is asked again, and the kept answer, up to MaxStale, is served and marked as stale when the new one does
// not come within a second, or the question fails. After a question that failed there is a short pause, in which
// stale answers are served and nothing is asked; after one that took long, stale answers are served at once for a
// while.
type documents struct {
	r *Registry

	flights flights[*listing]
	hot     *memory[key, *answer]
	reading chan struct{}          // one for each document that is being read from the store
	held    *memory[key, error]    // RetryLater of upstream
	missing *memory[key, error]    // ErrNotFound of upstream
	slow    *memory[string, error] // registries that answer late
	grown   atomic.Int64           // bytes that were put since the documents were last trimmed
}

// answer is a document as it is served from memory.
type answer struct {
	kept, stale *listing
	revision    uint64 // of the record in the store; zero: it could not be kept
	asked       time.Time
	again       atomic.Pointer[time.Time] // no refresh before
	old         atomic.Bool               // it is known not to be current
}

func newAnswer(v *listing, asked time.Time, revision uint64) *answer {
	return &answer{kept: v.marked(false), stale: v.marked(true), revision: revision, asked: asked}
}

// fresh reports whether a needs no refresh. An answer from the future, as it is seen after the clock was set
// back, is not fresh.
func (a *answer) fresh(limit time.Duration) bool {
	age := time.Since(a.asked)
	return !a.old.Load() && age >= 0 && age < limit
}

const (
	soon         = time.Second      // how long a refresh is waited for before the stale document is served
	slowPause    = 30 * time.Second // how long refreshes of a registry are not waited for after one that took longer
	refreshPause = 5 * time.Second  // after a failed refresh, while stale answers are served
	maxReading   = 4                // documents that are read from the store at the same time
	maxHot       = 32 << 20         // bytes of documents in memory
	maxTries     = 3                // of something that another process can get in the way of
)

var (
	errSlow    = errors.New("the registry did not answer soon")
	errReading = errors.New("many other documents are being read from the store")
)

// get returns the document for k. Its error is [fs.ErrNotExist] when none is kept and nothing is asked.
func (d *documents) get(ctx context.Context, k key) (*listing, error) {
	a, err := d.read(ctx, k)
	switch {
	case err != nil:
		return nil, k.wrap("versions", err)
	case a == nil && d.r.Next == nil:
		return nil, fs.ErrNotExist
	case a == nil:
	case a.fresh(d.r.Fresh):
		return a.kept, nil
	case d.r.Next == nil:
		return a.stale, nil
	case time.Since(a.asked) <= d.r.MaxStale:
		return d.refreshed(ctx, k, a)
	}
	if err := d.refused(k); err != nil {
		return nil, err
	}
	call, err := d.ask(ctx, k, a)
	if err != nil {
		return nil, k.wrap("versions", err)
	}
	return call.within(ctx, patience, "versions", k)
}

// refused returns why upstream is not asked for k, or nil.
func (d *documents) refused(k key) error {
	for _, known := range []*memory[key, error]{d.missing, d.held} {
		if err, ok := known.get(k); ok {
			return err
		}
	}
	return nil
}

// refreshed returns the answer for k when a, which is kept, is not fresh: the one of upstream if it comes soon,
// else a. A client that installs ten modules does not wait ten times for a registry that is down.
func (d *documents) refreshed(ctx context.Context, k key, a *answer) (*listing, error) {
	again := a.again.Load()
	if _, held := d.held.get(k); !held && (again == nil || !time.Now().Before(*again)) {
		call, err := d.ask(ctx, k, a)
		if _, slow := d.slow.get(k.Host); err == nil && !slow { // else the next question finds the answer
			v, err := call.within(ctx, soon-time.Since(call.began), "versions", k)
			switch {
			case err == nil, errors.Is(err, modproxy.ErrNotFound):
				return v, err
			case time.Since(call.began) >= soon:
				d.slow.add(k.Host, errSlow, slowPause, 0)
			}
		}
	}
	d.r.observe(k.event(StaleServed, nil))
	return a.stale, nil
}

// read returns what is known about k without asking upstream, or nil. What is in memory is compared with the store
// every recallFor; while that fails, it counts. Few documents are read at the same time, because reading takes
// several times their size: the error is [modproxy.RetryLater] when it is not k's turn for longer than patience.
func (d *documents) read(ctx context.Context, k key) (*answer, error) {
	if a, ok := d.hot.get(k); ok {
		return a, nil
	}
	var crowded error
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-time.After(patience):
		crowded = errReading
	case <-ctx.Done():
		crowded = context.Cause(ctx)
	}
	seen, ok := d.hot.get(k)
	switch {
	case ok, seen != nil && crowded != nil && ctx.Err() != nil:
		return seen, nil
	case crowded != nil && seen == nil:
		return nil, retrySoon(crowded)
	}
	remember := d.hot.begin(k)
	a := seen
	if crowded == nil {
		var err error
		if a, err = d.load(context.WithoutCancel(ctx), k, seen); err != nil {
			d.r.observe(k.event(StoreFailed, err))
			a = seen
		}
	}
	if a == nil {
		d.hot.drop(k)
		return nil, nil
	}
	remember(a, recallFor, a.kept.size())
	return a, nil
}

// load returns the answer for k that is kept, or nil. It returns what was seen in memory if that is the same,
// or newer and could not be kept.
func (d *documents) load(ctx context.Context, k key, seen *answer) (*answer, error) {
	rec, err := d.r.Store.Records.Get(ctx, k.ref())
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
	a, err := parseDocument(rec)
	switch {
	case err != nil:
		return nil, err
	case seen != nil && seen.revision == 0 && seen.asked.After(a.asked):
		return seen, nil
	}
	d.learn(k, a.kept)
	return a, nil
}

// ask asks upstream for k, unless that is under way. What is kept is before, or nil.
func (d *documents) ask(ctx context.Context, k key, before *answer) (*call[*listing], error) {
	return d.flights.join(ctx, d.r.asking, modproxy.AskerOf(ctx), k, func(ctx context.Context) (*listing, error) {
		if a, ok := d.hot.get(k); ok && a.fresh(d.r.Fresh) {
			return a.kept, nil
		}
		if err := d.refused(k); err != nil {
			return nil, err
		}
		return d.askNow(ctx, k, before)
	})
}

// askAnew asks upstream for k. The answer to a question that was under way before is not good enough: it may be
// older.
func (d *documents) askAnew(ctx context.Context, k key, before *answer) (*listing, error) {
	for {
		own := false
		call, err := d.flights.join(ctx, d.r.asking, modproxy.AskerOf(ctx), k, func(ctx context.Context) (*listing, error) {
			own = true
			return d.askNow(ctx, k, before)
		})
		if err != nil {
			return nil, k.wrap("versions", err)
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
func (d *documents) askNow(ctx context.Context, k key, before *answer) (v *listing, err error) {
	ctx, cancel := d.r.asking.detach(ctx, askTimeout)
	defer cancel()
	if a, ok := d.hot.get(k); ok {
		before = a
	}
	var kept *listing
	var revision uint64
	if before != nil {
		kept, revision = before.kept, before.revision
	}
	missing := d.missing.begin(k)
	asked := time.Now()
	v, err = d.askNext(ctx, k, kept)
	took := time.Since(asked)
	switch {
	case took >= soon:
		d.slow.add(k.Host, errSlow, slowPause, 0)
	case err == nil:
		d.slow.drop(k.Host)
	}
	if err == nil {
		return d.keep(ctx, k, v, asked, revision), nil
	}
	err = k.wrap("versions", settle(late(ctx, err, askTimeout)))
	if errors.Is(err, modproxy.ErrNotFound) {
		missing(err, d.r.Missing-took, 0)
		d.hot.drop(k)
		if err := d.r.Store.Records.Delete(ctx, k.ref(), revision); err != nil && !errors.Is(err, store.ErrConflict) {
			d.r.observe(k.event(StoreFailed, err))
		}
		return v, err
	}
	d.held.add(k, err, holdFor(err), 0)
	if before != nil {
		again := time.Now().Add(refreshPause)
		before.again.Store(&again)
	}
	return v, err
}

// keep keeps v and returns it, or a newer answer that another process has kept meanwhile. A store that fails is
// told of, but does not make an answer unfit to be served.
func (d *documents) keep(ctx context.Context, k key, v *listing, asked time.Time, revision uint64) *listing {
	a := newAnswer(v, asked, 0)
	value, err := v.encode(asked)
	for try := 1; err == nil; try++ {
		var now uint64
		now, err = d.r.Store.Records.Put(ctx, store.Record{Ref: k.ref(), Value: value, Revision: revision})
		if err == nil {
			a.revision = now
			d.trim(int64(len(value)))
			break
		}
		if !errors.Is(err, store.ErrConflict) || try == maxTries {
			break
		}
		var rec store.Record
		rec, err = d.r.Store.Records.Get(ctx, k.ref())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) {
			rec, err = store.Record{}, nil
		}
		if newer, errParse := parseDocument(rec); errParse == nil && newer.asked.After(asked) {
			a, v = newer, newer.kept
			break
		}
		revision = rec.Revision
	}
	if err != nil {
		d.r.observe(k.event(StoreFailed, err))
	}
	d.missing.drop(k)
	d.hot.add(k, a, recallFor, a.kept.size())
	d.learn(k, v)
	return v
}

// outdate makes the next question for k ask upstream, if what is kept is not current. Nobody waits until a
// document is read for it.
func (d *documents) outdate(k key, current func(*listing) bool) {
	look := func(a *answer) {
		if !current(a.kept) {
			a.old.Store(true)
		}
	}
	if a, ok := d.hot.get(k); ok {
		look(a)
		return
	}
	d.r.asking.start("", func() { // when too much goes on, it is old soon enough
		if a, err := d.read(d.r.asking.ending, k); err == nil && a != nil {
			look(a)
		}
	})
}

// overhead is what a document counts beside its bytes, so that small ones have a bound in number.
const overhead = 1 << 10

// trim keeps the documents to limit, when an eighth of that, or more, was put since the last time. put is the
// bytes of one more document.
func (d *documents) trim(put int64) {
	if d.r.MaxVersions <= 0 || d.grown.Add(put+overhead) < d.r.MaxVersions/8 {
		return
	}
	d.grown.Store(0)
	d.r.asking.start("", func() { // if not now, then after the next eighth
		switch bytes, err := d.trimNow(d.r.asking.ending); {
		case err != nil:
			d.r.observe(Event{Kind: StoreFailed, Err: fmt.Errorf("removing versions documents: %w", err)})
		case bytes > 0:
			d.r.observe(Event{Kind: VersionsTrimmed, Bytes: bytes})
		}
	})
}

// trimNow removes documents until those that stay have no more than limit bytes.
func (d *documents) trimNow(ctx context.Context) (removed int64, err error) {
	type kept struct {
		store.Record
		size  int64
		used  int // 1: a package is kept beside it
		asked time.Time
	}
	var all []kept
	var total int64
	for rec, err := range d.r.Store.Records.List(ctx, VersionsKind, "") {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return 0, err
		}
		h, _, _ := splitHeader(rec.Value)
		e := kept{Record: rec, size: int64(len(rec.Value)) + overhead, asked: h.Asked}
		e.Value = nil
		for range d.r.Store.Records.List(ctx, PackageKind, rec.Key+"/") {
			e.used = 1
			break
		}
		total += e.size
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(cmp.Compare(a.used, b.used), a.asked.Compare(b.asked)) })
	for _, e := range all {
		if total <= d.r.MaxVersions {
			break
		}
		switch err := d.r.Store.Records.Delete(ctx, e.Ref, e.Revision); {
		case err == nil:
			total -= e.size
			removed += e.size
		case !errors.Is(err, store.ErrConflict): // else it was put meanwhile
			return removed, err
		}
	}
	return removed, nil
}
