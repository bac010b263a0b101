package store

import (
	"context"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// Collection selects the blobs that [Store.Collect] removes.
type Collection struct {
	// MaxSize is the maximum total size of the remaining blobs and the quarantine, in bytes. Zero means no limit.
	MaxSize int64 `json:"max_size,omitempty"`
	// OrphanAge is the minimum age of removed blobs that no record needs. A younger blob may be about to get a record.
	// If OrphanAge is negative, no such blob is removed.
	OrphanAge     time.Duration `json:"-"`
	QuarantineAge time.Duration `json:"aside_age,omitempty"` // minimum age of removed blobs in the quarantine; zero: none are removed
	DryRun        bool          `json:"dry_run,omitempty"`   // count without removing
	// Found, if not nil, is called for each blob that a dry run would remove, with the records that need it.
	Found func(b BlobInfo, by []Ref) `json:"-"`
}

func (c Collection) found(b BlobInfo, by []Ref) {
	if c.Found != nil {
		c.Found(b, by)
	}
}

// Collected contains the results of [Store.Collect].
type Collected struct {
	Orphans    Amount `json:"orphans"` // blobs that no record needs
	Evicted    Amount `json:"evicted"`
	Quarantine Amount `json:"quarantine"`
	Kept       int64  `json:"kept_bytes"` // bytes of the remaining blobs
}

// Collect removes quarantined blobs and blobs that no record needs. Then it evicts blobs until the rest is within
// MaxSize: the least recently used first, those of [Store.EvictLast] after all others, and no blob that is pinned or open.
// Errors: that of the context, [StorageError].
func (s *Store) Collect(ctx context.Context, c Collection) (out Collected, err error) {
	give, err := s.room.turn.Take(ctx)
	if err != nil {
		return out, ctx.Err()
	}
	defer give()
	if c.QuarantineAge > 0 {
		purge := s.Quarantine.Purge
		if c.DryRun {
			purge = s.Quarantine.Quarantined
		}
		if out.Quarantine, err = purge(ctx, c.QuarantineAge); err != nil {
			return out, failure(ctx, err)
		}
	}
	if err := s.count(ctx); err != nil {
		return out, err
	}
	orphans, err := s.collectOrphans(ctx, c, &out.Orphans)
	if err != nil {
		return out, err
	}
	switch {
	case c.MaxSize > 0 && c.DryRun:
		out.Evicted, err = s.overhang(ctx, c, c.MaxSize+out.Quarantine.Bytes+out.Orphans.Bytes, orphans)
	case c.MaxSize > 0:
		out.Evicted, err = s.evictTo(ctx, c.MaxSize)
	}
	if out.Kept, _ = s.Usage(); c.DryRun {
		out.Kept -= out.Orphans.Bytes + out.Evicted.Bytes
	}
	return out, err
}

// collectOrphans removes blobs that no record needs. In a dry run it returns them.
func (s *Store) collectOrphans(ctx context.Context, c Collection, all *Amount) (found map[modproxy.Digest]bool, err error) {
	if c.OrphanAge < 0 {
		return nil, nil
	}
	list, err := s.list(ctx)
	old := slices.DeleteFunc(list, func(b BlobInfo) bool { return time.Since(b.Time) < c.OrphanAge })
	found = map[modproxy.Digest]bool{}
	for group := range slices.Chunk(old, batch) {
		var going []modproxy.Digest
		for _, b := range group {
			if c.DryRun {
				by, _, err := s.needing(ctx, b.Digest)
				if err != nil {
					return nil, err
				}
				if len(by) == 0 {
					found[b.Digest] = true
					all.add(b.Size)
					c.found(b, nil)
				}
			} else if s.room.beginRemoval(b.Digest) { // else the blob is about to get a record
				going = append(going, b.Digest)
			}
		}
		removed, err := s.remove(ctx, Collect, going)
		for _, b := range removed {
			all.add(b.Size)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, err
}

// overhang returns the blobs that would be evicted to leave limit bytes. It leaves out orphans.
func (s *Store) overhang(ctx context.Context, c Collection, limit int64, orphans map[modproxy.Digest]bool) (all Amount, err error) {
	m := s.room
	m.mu.Lock()
	over, line := m.kept+m.aside-limit, m.choose(m.idle, len(m.entries))
	m.mu.Unlock()
	for i := 0; i < len(line) && all.Bytes < over; i++ {
		b := line[i]
		by, pinned, err := s.needing(ctx, b.Digest)
		switch {
		case err != nil:
			return all, err
		case pinned || orphans[b.Digest]:
		case s.postponed(ctx, b.Digest, by[b.Digest]):
			line = append(line, b)
		default:
			all.add(b.Size)
			c.found(BlobInfo{Digest: b.Digest, Size: b.Size}, by[b.Digest])
		}
	}
	return all, nil
}
