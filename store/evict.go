package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	readerPatience = 10 * time.Second // maximum wait for readers, if nothing else can be evicted
	batch          = 1000             // blobs that are removed at once
)

// Usage returns the bytes of stored blobs, and the bytes reserved for blobs that are being written. Blobs from earlier
// runs count soon after Start.
func (s *Store) Usage() (kept, reserved int64) {
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
			return failure(ctx, fmt.Errorf("listing the blobs: %w", err))
		}
		do(b)
	}
	return nil
}

// count adds the blobs from earlier runs to the account, once, and updates the size of the quarantine. The caller holds
// room.turn.
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
			if !b.Needed && b.Time.Before(s.started) { // a newer blob is about to get a record
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
	all, err := s.Quarantine.Quarantined(ctx, 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.aside += all.Bytes - aside // a blob that is quarantined meanwhile may count twice until the next call
	}
	return failure(ctx, err)
}

// Room returns a [modproxy.NoSpace] unless n more bytes are within MaxSize. If stays is true, they must fit beside all
// stored blobs.
func (s *Store) Room(ctx context.Context, n int64, stays bool) error {
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
		return &modproxy.NoSpace{Err: fmt.Errorf("%s more than cache.max_size (%s) allows (operator: raise it, or make room with modproxy rm)",
			modproxy.SizeText(over), modproxy.SizeText(m.limit))}
	}
	return nil
}

// makeRoom reserves room for blobs until room.release. It evicts the least recently used blobs.
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
		return 0, &modproxy.PermanentContent{Err: fmt.Errorf("%w: the package needs %s; cache.max_size is %s (operator: raise it)",
			modproxy.ErrDenied, modproxy.SizeText(size), modproxy.SizeText(m.limit))}
	}
	give, err := m.turn.Take(ctx)
	if err != nil {
		return 0, ctx.Err()
	}
	defer give()
	full := &modproxy.NoSpace{Err: fmt.Errorf(
		"no room for a package of %s beside packages that are pinned, quarantined or being read (operator: cache.max_size is %s)",
		modproxy.SizeText(size), modproxy.SizeText(m.limit))}
	var patience <-chan time.Time // timeout of the wait for readers; nil if the call does not wait for readers
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
			unpinned = true // once: pinned blobs may have lost their pins
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

// needing returns the records that need blobs, and whether one of them is pinned. The blobs of pinned records are not
// chosen again.
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

// postponed reports whether a blob is to be evicted after all others and was not marked so yet. It marks the blob.
func (s *Store) postponed(ctx context.Context, d modproxy.Digest, by []Ref) (found bool) {
	if s.EvictLast == nil || !slices.ContainsFunc(by, func(ref Ref) bool { return s.EvictLast(ctx, ref) }) {
		return false
	}
	s.room.edit(d, func(e *entry) { found, e.last = !e.last, true })
	return found
}

// evict removes victims and the records that need them. If a victim is pinned or must be evicted later, it removes
// nothing, and the caller chooses other victims. The caller holds room.turn. evict ends the removal of the victims.
func (s *Store) evict(ctx context.Context, victims []modproxy.Digest, all *Amount) error {
	by, pinned, err := s.needing(ctx, victims...)
	for d, refs := range by {
		pinned = s.postponed(ctx, d, refs) || pinned
	}
	if pinned || err != nil {
		for _, d := range victims {
			s.room.endRemoval(d, 0)
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
	stores := map[modproxy.Digest]int{}
	for _, d := range list {
		stores[d] = s.room.stores(d)
	}
	removed, err := s.Blobs.Remove(ctx, how, list...)
	sizes := map[modproxy.Digest]int64{}
	for _, b := range removed {
		sizes[b.Digest] = b.Size
	}
	for _, d := range list {
		size, gone := sizes[d]
		if gone = gone || err == nil && how != Collect; gone {
			s.memory.Drop(d)
		}
		for n := stores[d]; gone && !s.room.isGone(d, n); { // it was stored meanwhile: before it was removed, or afterwards
			n = s.room.stores(d)
			_, err := s.Blobs.Stat(ctx, d)
			gone = errors.Is(err, fs.ErrNotExist)
		}
		if how != ToQuarantine {
			size = 0
		}
		s.room.endRemoval(d, size)
	}
	return removed, failure(ctx, err)
}

// evictTo evicts blobs until at most limit bytes are stored, or until no more blobs may be evicted. The caller holds
// room.turn.
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
