package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	readerPatience = 10 * time.Second // with readers, when nothing else can be evicted
	batch          = 1000             // blobs that are removed at once
)

// Usage returns the bytes of the blobs that are kept, and those that are reserved for blobs being written. What was
// kept before counts soon after Start.
func (s *Store) Usage() (kept, reserved int64) {
	s.init()
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.room.kept, s.room.reserved
}

func (s *Store) list(ctx context.Context) (list []BlobInfo, err error) {
	err = s.eachBlob(ctx, func(b BlobInfo) { list = append(list, b) })
	return list, err
}

func (s *Store) eachBlob(ctx context.Context, do func(BlobInfo)) error {
	for b, err := range s.Blobs.Blobs(ctx) {
		if err != nil {
			return failure(ctx, fmt.Errorf("listing what is kept: %w", err))
		}
		do(b)
	}
	return nil
}

// count brings into account what was kept before, the first time that it can, and what was set aside. It is
// called in its turn.
func (s *Store) count(ctx context.Context) error {
	m := s.room
	m.mu.Lock()
	loaded, aside := m.loaded, m.aside
	m.mu.Unlock()
	if !loaded {
		var found []counted
		var unrecorded Amount
		err := s.eachBlob(ctx, func(b BlobInfo) {
			found = append(found, counted{b.Digest, b.Size, b.Used.UnixMicro()})
			if !b.Needed && b.Time.Before(s.started) { // a newer one is about to have a record
				unrecorded.add(b.Size)
			}
		})
		if err != nil {
			return err
		}
		s.unrecorded = unrecorded
		slices.SortFunc(found, func(a, b counted) int { return cmp.Compare(b.used, a.used) })
		m.load(found)
	}
	all, err := s.Aside.Aside(ctx, 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.aside += all.Bytes - aside // what is set aside meanwhile may count twice until the next time
	}
	return failure(ctx, err)
}

// Room returns a [modproxy.NoSpace] unless n bytes more are within MaxSize, beside what is kept if that is to stay.
func (s *Store) Room(ctx context.Context, n int64, stays bool) error {
	s.init()
	if s.MaxSize == 0 {
		return nil
	}
	m := s.room
	give, err := m.turn.Take(ctx)
	if err != nil {
		return ctx.Err()
	}
	defer give()
	if err := s.count(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if stays {
		n += m.kept + m.aside + m.reserved
	}
	if over := n - m.limit; over > 0 {
		return &modproxy.NoSpace{Err: fmt.Errorf("%s more than cache.max_size (%s) has room for (operator: raise it, or make room with modproxy rm)",
			modproxy.SizeText(over), modproxy.SizeText(m.limit))}
	}
	return nil
}

// makeRoom reserves room for blobs until room.release. It evicts what was not used for longest.
func (s *Store) makeRoom(ctx context.Context, blobs []Content) (reserved int64, err error) {
	m := s.room
	if reserved, _, _, what := m.reserve(blobs, false); what == waitNot {
		return reserved, nil
	}
	var size int64
	for _, b := range blobs {
		size += b.Size
	}
	if size > m.limit {
		return 0, &modproxy.Fixed{Err: fmt.Errorf("%w: the package needs %s, and all packages together may have %s (operator: raise cache.max_size)",
			modproxy.ErrDenied, modproxy.SizeText(size), modproxy.SizeText(m.limit))}
	}
	give, err := m.turn.Take(ctx)
	if err != nil {
		return 0, ctx.Err()
	}
	defer give()
	full := &modproxy.NoSpace{Err: fmt.Errorf(
		"a package of %s finds no room beside what is pinned, quarantined or being read (operator: cache.max_size is %s)",
		modproxy.SizeText(size), modproxy.SizeText(m.limit))}
	var patience <-chan time.Time // with readers; nil: they are not waited for
	unpinned := false
	for ctx.Err() == nil {
		if err := s.count(ctx); err != nil {
			return 0, err
		}
		reserved, victims, changed, what := m.reserve(blobs, true)
		switch {
		case len(victims) > 0:
			if err := s.evict(ctx, victims, new(Amount)); err != nil {
				return 0, err
			}
			continue
		case what == waitNot:
			return reserved, nil
		case what == waitNever:
			if unpinned || !m.unpin() {
				return 0, full
			}
			unpinned = true // once: what was pinned may not be any more
			continue
		case what == waitWriters:
			patience = nil
		case patience == nil:
			if _, pinned, err := s.needing(ctx, m.busy()...); err != nil {
				return 0, err
			} else if pinned {
				continue
			}
			patience = time.After(readerPatience)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-patience:
			return 0, full
		}
	}
	return 0, ctx.Err()
}

// needing returns the records that need blobs, and whether a pinned one is among them. The blobs that pinned
// ones need are not chosen again.
func (s *Store) needing(ctx context.Context, list ...modproxy.Digest) (by map[modproxy.Digest][]Ref, pinned bool, err error) {
	by = map[modproxy.Digest][]Ref{}
	for _, d := range list {
		records, err := s.Records.Needing(ctx, d)
		if err != nil {
			return nil, false, failure(ctx, err)
		}
		for _, r := range records {
			by[d] = append(by[d], r.Ref)
		}
		if slices.ContainsFunc(by[d], s.pinned) {
			s.room.edit(d, func(e *entry) { e.pinned = e.kept })
			pinned = true
		}
	}
	return by, pinned, nil
}

// pinned reports whether a record keeps its blobs from being evicted.
func (s *Store) pinned(ref Ref) bool {
	_, known := s.Kinds[ref.Kind]
	return s.Kinds != nil && !known || s.Pins != nil && s.Pins.Pinned(ref)
}

// postponed reports whether a blob is to be evicted after all others, which was not known. It is known from then on.
func (s *Store) postponed(ctx context.Context, d modproxy.Digest, by []Ref) (found bool) {
	if s.Last == nil || !slices.ContainsFunc(by, func(ref Ref) bool { return s.Last(ctx, ref) }) {
		return false
	}
	s.room.edit(d, func(e *entry) { found, e.last = !e.last, true })
	return found
}

// evict removes victims and the records that need them, or none if one of them turns out to be pinned, or to be for
// later: then others have to be chosen. It is called in its turn, and ends the removal of the victims.
func (s *Store) evict(ctx context.Context, victims []modproxy.Digest, all *Amount) error {
	by, pinned, err := s.needing(ctx, victims...)
	for d, refs := range by {
		pinned = s.postponed(ctx, d, refs) || pinned
	}
	if pinned || err != nil {
		for _, d := range victims {
			s.room.endRemoval(d, false, false)
		}
		return err
	}
	removed, err := s.remove(ctx, Evict, victims)
	for _, b := range removed {
		all.add(b.Size)
		s.observe(Event{Kind: BlobEvicted, Digest: b.Digest, Bytes: b.Size, Refs: by[b.Digest]})
	}
	return err
}

// remove removes blobs, and ends their removal.
func (s *Store) remove(ctx context.Context, how Removal, list []modproxy.Digest) ([]BlobInfo, error) {
	removed, err := s.Blobs.Remove(ctx, how, list...)
	gone := map[modproxy.Digest]bool{}
	for _, b := range removed {
		gone[b.Digest] = true
	}
	for _, d := range list {
		if gone[d] = gone[d] || err == nil && how != Collect; gone[d] {
			s.memory.Drop(d)
		}
		s.room.endRemoval(d, gone[d], how == SetAside)
	}
	return removed, failure(ctx, err)
}

// evictTo evicts in its turn until no more than limit bytes are kept, or nothing more may be evicted.
func (s *Store) evictTo(ctx context.Context, limit int64) (all Amount, err error) {
	for m := s.room; err == nil; {
		m.mu.Lock()
		victims := m.victims(m.kept+m.aside-limit, batch)
		m.mu.Unlock()
		if len(victims) == 0 {
			break
		}
		err = s.evict(ctx, victims, &all)
	}
	return all, err
}
