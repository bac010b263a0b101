package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy/store"
)

// read returns the answer for k without a request to upstream, or nil. It compares the answer in memory with the store every
// rereadAfter; while the store fails, the answer in memory counts. Reading a document takes several times its size in memory,
// so few are read at the same time. The error is a [modproxy.RetryLater] if no slot becomes free within clientWait.
func (d *documents[K, V]) read(ctx context.Context, k K) (*answer[V], error) {
	if a, ok := d.memory.Get(k); ok {
		return a, nil
	}
	done, crowded := d.slot(ctx)
	defer done()
	seen, ok := d.memory.Get(k)
	switch {
	case ok, seen != nil && crowded != nil && ctx.Err() != nil:
		return seen, nil
	case crowded != nil && seen == nil:
		return nil, retrySoon(crowded)
	}
	remember := d.memory.Begin(k)
	a := seen
	if crowded == nil {
		var err error
		if a, err = d.load(context.WithoutCancel(ctx), k, seen); err != nil {
			d.observe(k.event(StoreFailed, 0, err))
			a = seen
		}
	}
	if a == nil {
		d.memory.Drop(k)
		return nil, nil
	}
	remember(a, rereadAfter, a.size)
	return a, nil
}

// peek is like read, but does not add the document to memory. Use it for scans.
func (d *documents[K, V]) peek(ctx context.Context, k K) (*answer[V], error) {
	if a, ok := d.memory.Get(k); ok || d.store == nil {
		return a, nil
	}
	done, crowded := d.slot(ctx)
	defer done()
	if crowded != nil {
		return nil, retrySoon(crowded)
	}
	return d.load(ctx, k, nil)
}

// slot waits until a document may be read from the store, at most for clientWait. The caller must call done, even on error.
func (d *documents[K, V]) slot(ctx context.Context) (done func(), crowded error) {
	ctx, cancel := context.WithTimeoutCause(ctx, clientWait, errCrowdedStore)
	defer cancel()
	if done, crowded = d.reading.Take(ctx); crowded != nil {
		done = func() {}
	}
	return done, crowded
}

// load returns the stored answer for k, or nil. It returns seen, the answer in memory, if that is the same, or is newer and
// could not be stored.
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
	case seen != nil && seen.revision == 0 && seen.requested.After(a.requested):
		return seen, nil
	}
	d.source.learn(k, a.value)
	return a, nil
}

func (d *documents[K, V]) parse(k K, rec store.Record) (*answer[V], error) {
	requested, rest, err := splitRequested(rec.Value)
	if err != nil {
		return nil, err
	}
	v, size, err := d.source.decode(k, rest)
	if err != nil {
		return nil, err
	}
	a := d.newAnswer(v, size, requested)
	a.revision = rec.Revision
	return a, nil
}

// splitRequested splits a stored document. It begins with the time of the request, in Unix nanoseconds.
func splitRequested(value []byte) (requested time.Time, rest []byte, err error) {
	if len(value) < 8 {
		return requested, nil, fmt.Errorf("%w: a stored document of %d bytes", store.ErrDamaged, len(value))
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(value))), value[8:], nil
}

// keep stores v and returns it, or a newer answer that another process has stored meanwhile. If the store fails, v is served
// all the same.
func (d *documents[K, V]) keep(ctx context.Context, k K, v V, size int64, requested time.Time, revision uint64) V {
	a := d.newAnswer(v, size, requested)
	if d.store == nil {
		d.remember(k, a)
		return v
	}
	text, err := d.source.encode(v)
	value := append(binary.BigEndian.AppendUint64(nil, uint64(requested.UnixNano())), text...)
	put := func() error {
		now, err := d.store.Records.Put(ctx, store.Record{Ref: k.ref(), Value: value, Revision: revision})
		if err == nil {
			a.revision = now
			d.trim(k.ref().Kind, int64(len(value)))
		}
		return err
	}
	reread := func() (done bool, err error) {
		rec, err := d.store.Records.Get(ctx, k.ref())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) {
			rec, err = store.Record{}, nil
		}
		if newer, errParse := d.parse(k, rec); errParse == nil && newer.requested.After(requested) {
			a, v, done = newer, newer.value, true
		}
		revision = rec.Revision
		return done, err
	}
	if err == nil {
		err = putAgain(put, reread)
	}
	if err != nil {
		d.observe(k.event(StoreFailed, 0, err))
	}
	d.remember(k, a)
	d.source.learn(k, v)
	return v
}

// remember adds a to memory.
func (d *documents[K, V]) remember(k K, a *answer[V]) {
	d.missing.Drop(k)
	d.memory.Add(k, a, rereadAfter, a.size)
}

// expire makes the next request for k ask upstream, if the stored answer is not current. No caller waits until the answer is
// read.
func (d *documents[K, V]) expire(k K, current func(V) bool) {
	look := func() {
		if a, _ := d.read(d.work.Context(), k); a != nil && !current(a.value) {
			a.expired.Store(true)
		}
	}
	if _, ok := d.memory.Get(k); ok {
		look()
	} else {
		_ = d.work.Go("", look) // if too much is running, the document is old soon enough
	}
}
