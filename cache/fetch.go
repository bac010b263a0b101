package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
)

// startFetch starts the fetch of k, unless it is under way. A package that is
// kept is looked at instead, and fetched again only when it is damaged.
func (r *Registry) startFetch(ctx context.Context, k key) (*call[*PackageRecord], error) {
	return r.fetches.join(ctx, r.fetching, "", k, func(ctx context.Context) (*PackageRecord, error) {
		defer r.relearn(k, r.forgotten(k.Module).Load())
		defer r.located.Remove(k)
		have, err := r.sound(k)
		if err == nil && have != nil {
			return have, nil
		}
		if err != nil && !damaged(err) {
			return nil, k.settle("package", err, r.set.fetch)
		}
		if err := r.failed.get(k); err != nil {
			return nil, err
		}
		switch { // have is not nil, or nobody would have come here
		case r.Next == nil && r.removed(have):
			return nil, k.wrap("package", errEvicted)
		case r.Next == nil:
			return nil, k.wrap("package", errDamagedOffline)
		}
		rec, err := r.fetchInTurn(ctx, k, have)
		if err != nil {
			return nil, r.fail(k, err)
		}
		r.remember(k, rec)
		r.failed.kept.Remove(k)
		return rec, nil
	})
}

// sound looks at the kept blob of k, and sets it aside when it is damaged; the
// record then comes with the error. Both are nil when k is not kept.
func (r *Registry) sound(k key) (*PackageRecord, error) {
	rec, err := r.Index.Package(k.Module, k.version)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("index: %w", err)
	}
	if rec.Removed {
		return &rec, fmt.Errorf("%w: it was removed", fs.ErrNotExist)
	}
	if err := r.inspect(k, rec.Digest); err != nil {
		return &rec, err
	}
	r.remember(k, &rec)
	return &rec, nil
}

// inspect reads a whole blob. A damaged one is set aside; it and an absent one
// are told and give an error that is [ErrDamaged] or [fs.ErrNotExist].
//
// Nobody else looks at the blob meanwhile, so that the one that is set aside is
// the one that was seen to be damaged, and not what was fetched in its place.
func (r *Registry) inspect(k key, d modproxy.Digest) error {
	defer lock(r, d)()
	err := r.read(d)
	if err == nil {
		return nil
	}
	// What cannot be read is fetched again. Offline it stays where it is: it may
	// be readable again.
	if !damaged(err) || r.Next == nil && errors.Is(err, errUnreadable) {
		return err
	}
	gone := errors.Is(err, fs.ErrNotExist)
	if gone && r.evicted(d) {
		return err
	}
	r.observe(Event{Kind: BlobDamaged, Module: k.Module, Version: k.version, Err: err})
	if gone {
		r.room.lose(d)
		return err
	}
	if err := r.Blobs.Quarantine(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("setting a damaged blob aside: %v", err)
	}
	r.setAside(d)
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// read reads a whole blob and checks it.
func (r *Registry) read(d modproxy.Digest) error {
	blob, err := r.Blobs.Open(d)
	if err != nil {
		return err
	}
	v := newVerifier(blob, d, func() {})
	defer v.Close()
	return v.check()
}

// fetchInTurn waits for a turn and fetches the package of k. have is the record
// of one that was damaged, or nil.
func (r *Registry) fetchInTurn(ctx context.Context, k key, have *PackageRecord) (rec *PackageRecord, err error) {
	give, err := r.turns.take(r.fetching.ending, k.Module)
	if err != nil {
		return nil, err
	}
	defer give()
	ctx, cancel := r.fetching.detach(ctx, r.set.fetch)
	defer cancel()
	ctx, release := r.turns.hold(ctx)
	defer release()
	r.observe(Event{Kind: FetchStarted, Module: k.Module, Version: k.version})
	started := time.Now()
	defer func() {
		if p := recover(); p != nil {
			rec, err = nil, k.wrap("package", modproxy.Fault(p))
		}
		e := Event{Kind: FetchEnded, Module: k.Module, Version: k.version, Duration: time.Since(started), Err: err}
		if rec != nil {
			e.Bytes = rec.Size
		}
		r.observe(e)
	}()
	rec, err = r.fetch(ctx, k, have)
	if err != nil && context.Cause(ctx) == errDrips {
		return nil, errDrips
	}
	if err != nil && r.fetching.ending.Err() != nil {
		return nil, k.wrap("package", errClosing)
	}
	return rec, late(ctx, err, r.set.fetch)
}

func (r *Registry) fetch(ctx context.Context, k key, have *PackageRecord) (*PackageRecord, error) {
	rec := PackageRecord{}
	if have != nil {
		rec = *have
		rec.Removed = false
	} else {
		// What clients were told, or are told meanwhile.
		loc, ok := r.located.Get(k)
		if !ok {
			var err error
			if loc, err = r.askLocation(ctx, k); err != nil {
				return nil, err
			}
		}
		_, rec.Subdir = loc.SplitGlob()
	}
	p, err := r.Next.Package(ctx, k.Module.At(k.version))
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, errors.New("no package")
	}
	defer p.Close()
	switch {
	case p.Sum == "" || p.Digest.IsZero():
		return nil, fmt.Errorf("%w: a package without sum and digest", modproxy.ErrInvalid)
	case have != nil && p.Sum != have.Sum:
		return nil, fmt.Errorf("%w: it was %s when it was kept, and is %s now", modproxy.ErrChanged, have.Sum, p.Sum)
	case p.Subdir != rec.Subdir:
		r.located.Remove(k)
		return nil, fmt.Errorf("%w: the module's directory in the package was %q before, and is %q now", modproxy.ErrChanged, rec.Subdir, p.Subdir)
	}
	seat, release, err := r.room.hold(ctx, p.Digest)
	if err != nil {
		return nil, err
	}
	defer release()
	if r.Pinned != nil && r.Pinned(k.Module) {
		r.room.pin(seat)
	}
	var res reservation
	defer func() { res.end() }()
	if err := r.keepBlob(ctx, k, p, seat, &res); err != nil {
		return nil, err
	}
	rec.Digest, rec.Size = p.Digest, p.Size
	if have == nil {
		rec.Sum, rec.Source, rec.Notes, rec.Fetched = p.Sum, p.Source, p.Notes, p.Time
		if rec.Fetched.IsZero() {
			rec.Fetched = time.Now()
		}
	}
	return r.keepRecord(k, rec)
}

// keepBlob keeps the bytes of p, for which it reserves room unless they are there.
func (r *Registry) keepBlob(ctx context.Context, k key, p *modproxy.Package, seat *seat, res *reservation) error {
	there := false
	if _, err := r.Blobs.Stat(p.Digest); !errors.Is(err, fs.ErrNotExist) {
		// Another version has the same bytes; they should be right.
		err := r.inspect(k, p.Digest)
		if err != nil && !damaged(err) {
			return storageError{err}
		}
		there = err == nil
	}
	if there {
		err := r.put(ctx, p) // which makes it durable
		if err == nil {
			r.room.put(seat, p.Size)
			err = r.unmark(seat)
		}
		return err
	}
	if err := r.makeRoom(ctx, p.Size, res); err != nil {
		return err
	}
	if err := r.put(ctx, p); err != nil {
		return err
	}
	seat.touch(time.Now())
	res.keep(seat)
	return r.unmark(seat)
}

func (r *Registry) put(ctx context.Context, p *modproxy.Package) error {
	body := &body{Reader: p, left: p.Size}
	if err := r.Blobs.Put(ctx, p.Digest, body); err != nil {
		switch {
		case body.err != nil:
			return body.err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrDamaged):
			return fmt.Errorf("%w: package: %w", modproxy.ErrInvalid, err)
		}
		return storageError{err}
	}
	size, err := r.Blobs.Stat(p.Digest)
	switch {
	case err != nil:
		return storageError{err}
	case size != p.Size:
		return fmt.Errorf("%w: a package of %d bytes that was said to have %d", modproxy.ErrInvalid, size, p.Size)
	}
	return nil
}

// keepRecord commits rec. A mark that was set meanwhile stays.
func (r *Registry) keepRecord(k key, rec PackageRecord) (*PackageRecord, error) {
	defer lock(r, k)()
	old, err := r.Index.Package(k.Module, k.version)
	switch {
	case err == nil:
		rec.Dropped = old.Dropped
		if rec == old { // it was fetched again
			return &rec, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, storageError{err}
	}
	err = r.Index.PutPackage(k.Module, k.version, rec)
	switch {
	case errors.Is(err, modproxy.ErrChanged):
		return nil, err
	case err != nil:
		return nil, storageError{err}
	}
	return &rec, nil
}

// fail remembers that k could not be fetched, and is the answer to those who
// wait. Being stopped is not a failure.
func (r *Registry) fail(k key, err error) error {
	var storage storageError
	var full *modproxy.NoSpace
	var fixed *modproxy.Fixed
	pause := r.set.missing
	switch {
	case errors.Is(err, errClosing), r.fetching.ending.Err() != nil:
		return k.wrap("package", errClosing)
	case errors.Is(err, errCrowded):
		return k.wrap("package", err)
	case errors.As(err, &storage), errors.As(err, &full), notWritable(err):
		pause = min(pause, storagePause)
	case errors.As(err, &fixed):
		pause = max(pause, fixedPause)
	default:
		pause = max(pause, hold(err))
	}
	now := time.Now()
	failed := &modproxy.FetchFailed{Time: now, Again: now.Add(pause), Err: k.settle("package", err, r.set.fetch)}
	r.failed.add(k, failed, pause)
	r.records.Remove(k)
	return failed
}

// storageError is an error of the index or the blobs, which passes sooner than
// one of upstream.
type storageError struct{ err error }

func (e storageError) Error() string   { return "storage: " + e.err.Error() }
func (e storageError) Unwrap() []error { return []error{e.err, modproxy.ErrUnavailable} }

// body is a package on its way into the storage. It ends with an error when
// there is more than was announced, and remembers an error of its reader.
type body struct {
	io.Reader
	left int64
	err  error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.left -= int64(n)
	switch {
	case b.left < 0:
		b.err = fmt.Errorf("%w: the package is longer than was announced", modproxy.ErrInvalid)
		return 0, b.err
	case err != nil && !errors.Is(err, io.EOF):
		b.err = err
	}
	return n, err
}
