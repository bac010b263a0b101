package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/modproxy/modproxy"
)

// Package opens what one version contains. A package that is not kept is
// fetched, or the fetch under way is waited for, until ctx ends; the fetch goes
// on after that.
//
// Small packages are checked as a whole before a byte is served. A large one is
// checked while it is read: its last part is given only when all of it is
// right, and otherwise reading ends with [ErrDamaged]. To read only a part of
// it, seek first, also to the start; then all of it is checked before, unless it was
// not long ago and what is read now is the same. A blob
// that is missing or damaged is set aside and fetched again, which must give the
// same content.
//
// Errors: [modproxy.FetchFailed] with those of Next; [modproxy.ErrChanged] when
// the content is not what was kept; [modproxy.ErrUnavailable] when offline and
// not kept.
func (r *Registry) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	m, version := v.Module, v.Version
	r.once.Do(r.start)
	k := key{m, version}
	if !r.fetches.has(k) { // what is kept while it is fetched was found damaged
		if p, err := r.kept(k); p != nil || err != nil {
			return p, err
		}
	}
	for try := 1; ; try++ {
		call, err := r.startFetch(ctx, k)
		if err != nil {
			return nil, k.wrap("package", err)
		}
		select {
		case <-call.done:
		case <-ctx.Done():
			return nil, k.wrap("package", ctx.Err())
		}
		if call.err != nil {
			return nil, call.err
		}
		p, err := r.open(k, call.value)
		if err == nil {
			return p, nil
		}
		r.records.Remove(k)
		if try == maxTries || !errors.Is(err, fs.ErrNotExist) { // it was evicted a moment after it was fetched
			return nil, k.settle("package", err, 0)
		}
	}
}

// kept opens what is kept of k; both are nil when it is to be fetched.
func (r *Registry) kept(k key) (*modproxy.Package, error) {
	rec, err := r.record(k)
	switch {
	case err == nil:
		p, err := r.open(k, rec)
		if err == nil {
			return p, nil
		}
		r.records.Remove(k)
		if !damaged(err) {
			return nil, k.settle("package", err, 0)
		}
	case errors.Is(err, fs.ErrNotExist) && r.Next == nil:
		return nil, k.wrap("package", errOffline)
	case rec == nil && !errors.Is(err, fs.ErrNotExist), rec != nil && !damaged(err):
		return nil, k.settle("package", err, 0)
	}
	return nil, nil
}

// maxTries is how often a package is fetched for one who asks.
const maxTries = 3

// damaged tells whether err says that a blob is not what it was, or not to be
// had any more. That a blob could not be opened for want of something else says
// nothing about it.
func damaged(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnreadable)
}

// open opens the package that rec is about: from memory, or as a blob that is
// checked while it is read.
func (r *Registry) open(k key, rec *PackageRecord) (*modproxy.Package, error) {
	seat := r.use(rec.Digest) // from here on it is not evicted
	hot, err := r.hot(rec)
	if err != nil || hot != nil {
		r.room.left(seat)
	}
	if err != nil {
		return nil, err
	}
	if hot != nil {
		return hot.open(rec), nil
	}
	blob, err := r.openBlob(rec)
	if err != nil {
		r.room.left(seat)
		return nil, err
	}
	blob = &seated{Blob: blob, room: r.room, seat: seat}
	p := describe(rec)
	v := newVerifier(blob, rec.Digest, func() {
		r.records.Remove(k)
		r.startFetch(context.Background(), k) // it looks at the blob again, and sets it aside
	})
	v.known, v.learn = r.marks.get(rec.Digest), func(m *marks) { r.marks.add(rec.Digest, m) }
	p.ReadSeekCloser = v
	return &p, nil
}

// seated is a blob that is being read.
type seated struct {
	Blob
	room   *room
	seat   *seat
	closed atomic.Bool
}

// Close ends the reading; a second one does nothing.
func (b *seated) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	defer b.room.left(b.seat)
	return b.Blob.Close()
}

func (r *Registry) openBlob(rec *PackageRecord) (Blob, error) {
	blob, err := r.Blobs.Open(rec.Digest)
	if err != nil {
		return nil, err
	}
	if blob.Size() != rec.Size {
		blob.Close()
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrDamaged, blob.Size(), rec.Size)
	}
	return blob, nil
}

func describe(rec *PackageRecord) modproxy.Package {
	return modproxy.Package{
		Digest: rec.Digest, Sum: rec.Sum, Size: rec.Size, Time: rec.Fetched, Source: rec.Source, Subdir: rec.Subdir, Notes: rec.Notes,
	}
}

// hot is the package in memory; nil when it is too large, or there is no room
// because of packages that are being served.
func (r *Registry) hot(rec *PackageRecord) (*hot, error) {
	if h := r.memory.get(rec.Digest); h != nil || rec.Size > r.memory.largest() {
		return h, nil
	}
	_, err, _ := r.loads.Do(string(rec.Digest[:]), func() (any, error) {
		if r.memory.has(rec.Digest) || !r.memory.reserve(rec.Size) {
			return nil, nil
		}
		data, err := r.load(rec)
		if err != nil {
			r.memory.free(rec.Size)
			return nil, err
		}
		r.memory.add(rec.Digest, data)
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return r.memory.get(rec.Digest), nil
}

// load reads and checks a whole blob.
func (r *Registry) load(rec *PackageRecord) ([]byte, error) {
	blob, err := r.openBlob(rec)
	if err != nil {
		return nil, err
	}
	v := newVerifier(blob, rec.Digest, func() {})
	defer v.Close()
	data := make([]byte, rec.Size)
	if _, err := io.ReadFull(v, data); err != nil {
		return nil, err
	}
	return data, v.check() // an empty one was not read
}
