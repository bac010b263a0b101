package cache

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
)

// Versions lists the versions of m. A document younger than Fresh is served as
// it is kept. After that Next is asked again; the kept document, up to MaxStale, is
// served and marked Stale when the answer does not come within a second, or the
// question fails. A question goes on when nobody waits for it. After one that
// failed there is a short pause, in which stale answers are served and nothing is
// asked; after one that took long, stale answers are served at once for a while.
//
// A version whose package is kept is listed, whatever upstream lists. Offline,
// a document is served whatever its age; where none is kept, the packages that
// are kept make one.
//
// Errors: those of Next; [modproxy.RetryLater] when Next takes longer than Wait
// or than ctx; [modproxy.ErrUnavailable] when offline and nothing is kept.
func (r *Registry) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	r.once.Do(r.start)
	now := time.Now()
	a, ok := r.answers.get(m)
	if ok && a.fresh(now, r.set.fresh) {
		return a.kept, nil
	}
	k := key{Module: m}
	if !ok {
		if err := r.missing.get(k); err != nil {
			return nil, err
		}
		var err error
		if a, err = r.keptAnswer(ctx, m); err != nil {
			return nil, k.wrap("versions", err)
		}
	}
	switch {
	case a == nil:
		if r.Next == nil {
			return r.offlineVersions(m, now)
		}
	case a.fresh(now, r.set.fresh):
		return a.kept, nil
	case r.Next == nil:
		return a.stale, nil
	case now.Sub(a.asked) <= r.set.maxStale:
		return r.refreshed(ctx, m, a)
	}
	if err := r.held.get(m); err != nil {
		return nil, err
	}
	call, err := r.ask(ctx, m)
	if err != nil {
		return nil, k.wrap("versions", err)
	}
	return call.within(ctx, r.set.wait, "versions", k)
}

// keptAnswer is what is known about m without asking Next, or nil. The documents
// that are read from the index at the same time are few, because reading takes
// several times their size: the error is [modproxy.RetryLater] when it is not
// m's turn for longer than Wait.
func (r *Registry) keptAnswer(ctx context.Context, m modproxy.Module) (*answer, error) {
	patience := time.NewTimer(r.set.wait)
	defer patience.Stop()
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-patience.C:
		return nil, &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: errReading}
	case <-ctx.Done():
		return nil, &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: context.Cause(ctx)}
	}
	if a, ok := r.answers.get(m); ok {
		return a, nil
	}
	return r.readAnswer(m), nil
}

// readAnswer reads what the index has about m; nil for nothing.
func (r *Registry) readAnswer(m modproxy.Module) *answer {
	rec, err := r.Index.Versions(m)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(rec.Document) == 0 {
		return nil
	}
	var v *modproxy.Versions
	if err == nil {
		v, err = parseKept(rec.Document)
	}
	if err != nil {
		r.observe(Event{Kind: IndexFailed, Module: m, Err: err})
		return nil
	}
	v.Dropped, v.Time = rec.Dropped, rec.Time
	a := newAnswer(v, rec.Asked)
	r.answers.add(m, a)
	return a
}

// parseKept reads a document as it is kept.
func parseKept(document []byte) (*modproxy.Versions, error) {
	if !bytes.HasPrefix(document, []byte("\x1f\x8b")) { // it was kept as it is
		return modproxy.ParseVersions(document)
	}
	z, err := gzip.NewReader(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	var plain bytes.Buffer
	switch n, err := plain.ReadFrom(io.LimitReader(z, maxDocument+1)); {
	case err != nil:
		return nil, err
	case n > maxDocument: // nothing that was kept is: somebody has changed the index
		return nil, fmt.Errorf("%w: a versions document of more than %d bytes", modproxy.ErrInvalid, maxDocument)
	}
	return modproxy.ParseVersions(plain.Bytes())
}

// ask asks Next for the versions of m, unless that is under way.
func (r *Registry) ask(ctx context.Context, m modproxy.Module) (*call[*modproxy.Versions], error) {
	return r.listings.join(ctx, r.asking, modproxy.AskerOf(ctx), m, func(ctx context.Context) (*modproxy.Versions, error) {
		if a, ok := r.answers.get(m); ok && a.fresh(time.Now(), r.set.fresh) {
			return a.kept, nil
		}
		k := key{Module: m}
		if err := r.missing.get(k); err != nil {
			return nil, err
		}
		if err := r.held.get(m); err != nil {
			return nil, err
		}
		return r.askNext(ctx, m)
	})
}

// askNext asks Next for the versions of m, and keeps what it answers.
func (r *Registry) askNext(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	k := key{Module: m}
	ctx, cancel := r.asking.detach(ctx, askTimeout)
	defer cancel()
	asked := time.Now()
	v, err := r.Next.Versions(ctx, m)
	if err == nil && v == nil {
		err = errors.New("no answer")
	}
	r.paced(m.Host, time.Since(asked), err)
	r.observe(Event{Kind: VersionsAsked, Module: m, Duration: time.Since(asked), Err: err})
	if err != nil {
		return r.askedInVain(ctx, k, k.settle("versions", late(ctx, err, askTimeout), askTimeout), asked)
	}
	return r.keepVersions(ctx, m, v, asked)
}

// askedInVain is what follows from an error of Next.
func (r *Registry) askedInVain(ctx context.Context, k key, err error, asked time.Time) (*modproxy.Versions, error) {
	if errors.Is(err, modproxy.ErrNotFound) {
		v, errMerge := r.merge(ctx, k.Module, nil, asked)
		switch {
		case errMerge != nil:
			return nil, k.settle("versions", errMerge, askTimeout)
		case v != nil:
			return r.putVersions(k.Module, v, asked), nil
		}
		r.missing.add(k, err, r.set.missing-time.Since(asked))
		r.answers.remove(k.Module)
		if _, absent := r.Index.Versions(k.Module); !errors.Is(absent, fs.ErrNotExist) {
			r.putRecord(k.Module, VersionsRecord{Time: asked, Asked: asked})
		}
		return nil, err
	}
	if d := hold(err); d > 0 {
		r.held.add(k.Module, err, d)
	}
	if a, ok := r.answers.get(k.Module); ok {
		paused := *a
		paused.again = time.Now().Add(refreshPause)
		r.answers.add(k.Module, &paused)
	}
	return nil, err
}

// keepVersions keeps what Next answered, with the versions that stay listed.
func (r *Registry) keepVersions(ctx context.Context, m modproxy.Module, got *modproxy.Versions, asked time.Time) (*modproxy.Versions, error) {
	v, err := r.merge(ctx, m, got, asked)
	if err != nil {
		return nil, key{Module: m}.settle("versions", err, askTimeout)
	}
	return r.putVersions(m, v, asked), nil
}

// putVersions keeps v and is v as those get it who waited for it. A storage that
// fails is told, but does not make an answer unfit to be served.
func (r *Registry) putVersions(m modproxy.Module, v *modproxy.Versions, asked time.Time) *modproxy.Versions {
	answered := *v
	if answered.Time.IsZero() {
		answered.Time = asked
	}
	r.putRecord(m, VersionsRecord{
		Document: answered.Compressed, Dropped: answered.Dropped, Time: answered.Time, Asked: asked,
	})
	r.answers.add(m, newAnswer(&answered, asked))
	r.listed(m, &answered)
	return &answered
}

func (r *Registry) putRecord(m modproxy.Module, rec VersionsRecord) {
	if err := r.Index.PutVersions(m, rec); err != nil {
		r.observe(Event{Kind: IndexFailed, Module: m, Err: err})
		return
	}
	r.trimVersions(int64(len(rec.Document)))
}

// trimVersions keeps the kept documents to MaxVersions, when an eighth of that, or
// more, was put since the last time. put is the bytes of one more document.
func (r *Registry) trimVersions(put int64) {
	put += VersionsOverhead
	if r.MaxVersions <= 0 || r.grown.Add(put) < r.MaxVersions/8 {
		return
	}
	r.grown.Store(0)
	r.asking.start("", func() { // if not now, then after the next eighth
		trimmed, err := r.Index.TrimVersions(r.MaxVersions)
		switch {
		case err != nil:
			r.observe(Event{Kind: IndexFailed, Err: fmt.Errorf("removing versions documents: %w", err)})
		case trimmed.Documents > 0:
			r.observe(Event{Kind: VersionsGone, Bytes: trimmed.Bytes})
		}
	})
}

// offlineVersions makes a document from the packages that are kept of m.
func (r *Registry) offlineVersions(m modproxy.Module, now time.Time) (*modproxy.Versions, error) {
	k := key{Module: m}
	v, err := r.compose(r.Index.Packages(m))
	switch {
	case err != nil:
		return nil, k.wrap("versions", fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err))
	case v == nil:
		return nil, k.wrap("versions", errOffline)
	}
	v.Time, v.Hit, v.Stale = now, true, true
	return v, nil
}
