package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
)

// Usage is how many bytes the packages have that are kept, and how many are
// reserved for those that are being written. What was there at the start counts
// soon after it.
func (r *Registry) Usage() (kept, reserved int64) {
	r.once.Do(r.start)
	r.room.mu.Lock()
	defer r.room.mu.Unlock()
	return r.room.used, r.room.reserved
}

// account brings into account what was there at the start. It reads the storage
// only the first time that it can, and waits for nothing else.
func (r *Registry) account() error {
	m := r.room
	if m.loaded.Load() {
		return nil
	}
	m.loading.Lock()
	defer m.loading.Unlock()
	if m.loaded.Load() {
		return nil
	}
	if r.Uses != nil {
		for use, err := range r.Uses.Uses() {
			if err != nil {
				r.observe(Event{Kind: IndexFailed, Err: err})
				continue
			}
			s := m.seat(use.Digest)
			s.touch(use.Last)
			m.mu.Lock()
			s.saved, s.evicted = use, use.Evicted && !s.there.Load()
			m.mu.Unlock()
		}
	}
	if err := r.accountPins(); err != nil {
		return fmt.Errorf("finding what is pinned: %w", err)
	}
	for blob, err := range r.Blobs.All() {
		if err != nil {
			return fmt.Errorf("counting what is kept: %w", err)
		}
		s := m.seat(blob.Digest)
		if s.last.Load() == 0 {
			s.touch(blob.Time)
		}
		m.put(s, blob.Size)
	}
	m.load()
	return nil
}

// accountPins finds the packages that are pinned.
func (r *Registry) accountPins() error {
	if r.Pinned == nil {
		return nil
	}
	for kept, err := range r.Index.Packages(modproxy.Module{}) {
		switch {
		case err != nil && kept.Version == "":
			return err
		case err != nil: // what it says is not known, and it is fetched again
			r.observe(Event{Kind: IndexFailed, Module: kept.Module, Version: kept.Version, Err: err})
		case r.Pinned(kept.Module):
			r.room.pin(r.room.seat(kept.Record.Digest))
		}
	}
	return nil
}

// accountBeside brings into account what counts and is no blob.
func (r *Registry) accountBeside() error {
	if r.Beside == nil {
		return nil
	}
	m := r.room
	for {
		m.mu.Lock()
		asides := m.asides
		m.mu.Unlock()
		beside, err := r.Beside()
		if err != nil {
			return fmt.Errorf("counting what is set aside: %w", err)
		}
		m.mu.Lock()
		counted := m.asides == asides // else something was set aside meanwhile
		if counted {
			m.beside = beside
		}
		m.mu.Unlock()
		if counted {
			return nil
		}
	}
}

// setAside is the blob of d having been set aside.
func (r *Registry) setAside(d modproxy.Digest) {
	if r.Beside != nil {
		r.room.shelve(d)
	} else {
		r.room.lose(d)
	}
}

// settleRoom counts what is there, and evicts what is over the bound: it may have
// been lowered since.
func (r *Registry) settleRoom() {
	give, err := r.room.take(r.asking.ending)
	if err != nil {
		return
	}
	defer give()
	err = errors.Join(r.account(), r.accountBeside())
	if err == nil && r.MaxSize > 0 {
		_, err = r.shrink(r.MaxSize)
	}
	if err != nil {
		r.observe(Event{Kind: IndexFailed, Err: err})
	}
}

// makeRoom reserves n bytes, for which it evicts what was not used for longest.
// Whoever reserves next waits for it.
func (r *Registry) makeRoom(ctx context.Context, n int64, res *reservation) error {
	m := r.room
	if m.limit == 0 {
		m.claim(n, res)
		return nil
	}
	if n > m.limit {
		return fmt.Errorf("%w: a package of %d bytes, and all that are kept may have %d (cache.max_size)", modproxy.ErrDenied, n, m.limit)
	}
	give, err := m.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	if err := r.account(); err != nil {
		return storageError{err}
	}
	m.waiting.Store(true)
	defer m.waiting.Store(false)
	var patience <-chan time.Time // with readers; nil: they are not waited for
	for ctx.Err() == nil {
		if err := r.accountBeside(); err != nil {
			return storageError{err}
		}
		victims, changed, waiting := m.claim(n, res)
		if victims != nil {
			if _, err := r.evict(victims); err != nil {
				return storageError{err}
			}
			continue
		}
		full := &modproxy.NoSpace{Err: fmt.Errorf(
			"a package of %d bytes finds no room within cache.max_size (%d bytes): what is kept is pinned, set aside or being read", n, m.limit)}
		switch waiting {
		case waitNot:
			return nil
		case waitNever:
			return full
		case waitWriters:
			patience = nil
		case waitReaders:
			if patience == nil {
				patience = time.After(readerPatience)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-patience:
			return full
		}
	}
	return ctx.Err()
}

// readerPatience is how long a fetch waits for readers to come to the end, when nothing
// else can go.
const readerPatience = 10 * time.Second

// shrink evicts until no more than limit bytes are kept, or nothing more may go.
// It is called in its turn.
func (r *Registry) shrink(limit int64) (Removed, error) {
	m := r.room
	m.mu.Lock()
	over, line := m.used+m.beside-limit, m.line()
	m.mu.Unlock()
	var all Removed
	for over > 0 && len(line) > 0 {
		var victims []*seat
		victims, line = m.pick(line, over)
		gone, err := r.evict(victims)
		all.Packages += gone.Packages
		all.Bytes += gone.Bytes
		if err != nil {
			return all, err
		}
		over -= gone.Bytes
	}
	return all, nil
}

// Removed is what was removed, or would be.
type Removed struct {
	Packages int   `json:"packages"`
	Bytes    int64 `json:"bytes"`
}

func (r *Removed) add(bytes int64) {
	r.Packages++
	r.Bytes += bytes
}

// evict removes blobs that are going to make room, and tells. It is called in its
// turn.
func (r *Registry) evict(victims []*seat) (Removed, error) {
	return r.remove(victims, func(s *seat) {
		r.observe(Event{Kind: Evicted, Digest: s.digest, Bytes: s.size})
	})
}

// remove removes blobs that are going, and calls removed for each. Their records
// stay, and say what they were: what is fetched again must be the same. It is called
// in its turn.
func (r *Registry) remove(victims []*seat, removed func(*seat)) (Removed, error) {
	// First the mark: it does no harm beside a blob that is there after a crash,
	// while one that is missing without it is taken for damage. Where there is no
	// room for marks removing is what helps, and they are made later.
	err := r.saveUses(victims, true)
	if outOfSpace(err) {
		err = nil
	}
	var all Removed
	gone := map[modproxy.Digest]bool{}
	for _, s := range victims {
		if err == nil {
			if err = r.Blobs.Remove(s.digest); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		r.room.gone(s, err == nil, true)
		if err != nil {
			continue // and the others stay, too
		}
		gone[s.digest] = true
		all.add(s.size)
		removed(s)
	}
	r.forget(gone)
	return all, err
}

// forget drops from memory what was removed.
func (r *Registry) forget(gone map[modproxy.Digest]bool) {
	for d := range gone {
		r.memory.remove(d)
	}
	for _, k := range r.records.Keys() {
		if known, ok := r.records.Peek(k); ok && gone[known.rec.Digest] {
			r.records.Remove(k)
		}
	}
}

// outOfSpace tells whether err says that the storage is full.
func outOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// notWritable tells whether err says that nothing can be kept for now.
func notWritable(err error) bool { return outOfSpace(err) || errors.Is(err, syscall.EROFS) }

// use is a reader of the blob that d names, until it has left. Now and then it has
// the uses written down, in the background.
func (r *Registry) use(d modproxy.Digest) *seat {
	now := time.Now()
	s := r.room.read(d)
	s.touch(now)
	if last := r.flushed.Load(); now.UnixMilli()-last > flushPause.Milliseconds() && r.flushed.CompareAndSwap(last, now.UnixMilli()) {
		r.asking.start("", func() { r.flushUses() }) // else at the end
	}
	return s
}

// flushUses writes down what has changed since it was written.
func (r *Registry) flushUses() error {
	var changed []*seat
	for _, s := range r.room.seats.Range {
		changed = append(changed, s.(*seat))
	}
	err := r.saveUses(changed, false)
	if err != nil {
		r.observe(Event{Kind: IndexFailed, Err: fmt.Errorf("when packages were last used: %w", err)})
	}
	return err
}

// saveUses writes down the uses of those among seats that have changed; evicted
// marks those that are there as removed.
func (r *Registry) saveUses(seats []*seat, evicted bool) error {
	if r.Uses == nil {
		return nil
	}
	var uses []Use
	var of []*seat
	r.room.mu.Lock()
	for _, s := range seats {
		use := Use{Digest: s.digest, Last: time.UnixMilli(s.last.Load()), Evicted: s.evicted || evicted}
		if (s.there.Load() || use.Evicted) && (!use.Last.Equal(s.saved.Last) || use.Evicted != s.saved.Evicted) {
			uses, of = append(uses, use), append(of, s)
		}
	}
	r.room.mu.Unlock()
	if len(uses) == 0 {
		return nil
	}
	if err := r.Uses.PutUses(uses); err != nil {
		return err
	}
	r.room.mu.Lock()
	defer r.room.mu.Unlock()
	for i, s := range of {
		s.saved = uses[i]
	}
	return nil
}

// unmark takes the mark away that the blob of s was evicted, which is there again:
// if it is lost from now on, that is damage. Where there is no room it is done later.
func (r *Registry) unmark(s *seat) error {
	r.room.mu.Lock()
	marked := s.saved.Evicted
	r.room.mu.Unlock()
	if !marked {
		return nil
	}
	if err := r.saveUses([]*seat{s}, false); err != nil && !outOfSpace(err) {
		return storageError{err}
	}
	return nil
}

// removed tells whether the package that rec is about was removed on purpose.
func (r *Registry) removed(rec *PackageRecord) bool { return rec.Removed || r.evicted(rec.Digest) }

// evicted tells whether the blob that d names was removed on purpose.
func (r *Registry) evicted(d modproxy.Digest) bool {
	if r.account() != nil {
		return false
	}
	r.room.mu.Lock()
	defer r.room.mu.Unlock()
	s := r.room.known(d)
	return s != nil && s.evicted
}
