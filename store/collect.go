package store

import (
	"context"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// GC says what [Store.Collect] removes.
type GC struct {
	// MaxSize bounds the bytes of the blobs that stay, with what was set aside. Zero: no bound.
	MaxSize int64 `json:"max_size,omitempty"`
	// OrphanAge is how long ago blobs were put that are removed because no record needs them: one that was put a
	// moment ago may be about to have a record. Negative: none.
	OrphanAge time.Duration `json:"-"`
	AsideAge  time.Duration `json:"aside_age,omitempty"` // how long ago blobs were set aside that are removed; zero: none
	DryRun    bool          `json:"dry_run,omitempty"`   // remove nothing, and count
	// Found is called with each blob that a dry run would remove, and the records that need it, if it is not nil.
	Found func(b BlobInfo, by []Ref) `json:"-"`
}

func (gc GC) found(b BlobInfo, by []Ref) {
	if gc.Found != nil {
		gc.Found(b, by)
	}
}

// Collected is what [Store.Collect] has removed, or would remove.
type Collected struct {
	Orphans Amount `json:"orphans"` // blobs that no record needs
	Evicted Amount `json:"evicted"`
	Aside   Amount `json:"quarantine"`
	Kept    int64  `json:"kept_bytes"` // what is left
}

// Collect removes what was set aside and what no record needs, and then evicts what is over the bound: the blobs that
// were not used for longest, and are neither pinned nor open; those of [Store.Last] after all others. Errors: that of the context, [StorageError].
func (s *Store) Collect(ctx context.Context, gc GC) (out Collected, err error) {
	s.init()
	give, err := s.room.turn.Take(ctx)
	if err != nil {
		return out, ctx.Err()
	}
	defer give()
	if gc.AsideAge > 0 {
		purge := s.Aside.Purge
		if gc.DryRun {
			purge = s.Aside.Aside
		}
		if out.Aside, err = purge(ctx, gc.AsideAge); err != nil {
			return out, failure(ctx, err)
		}
	}
	if err := s.count(ctx); err != nil {
		return out, err
	}
	orphans, err := s.collectOrphans(ctx, gc, &out.Orphans)
	if err != nil {
		return out, err
	}
	switch {
	case gc.MaxSize > 0 && gc.DryRun:
		out.Evicted, err = s.overhang(ctx, gc, gc.MaxSize+out.Aside.Bytes+out.Orphans.Bytes, orphans)
	case gc.MaxSize > 0:
		out.Evicted, err = s.evictTo(ctx, gc.MaxSize)
	}
	if out.Kept, _ = s.Usage(); gc.DryRun {
		out.Kept -= out.Orphans.Bytes + out.Evicted.Bytes
	}
	return out, err
}

// collectOrphans removes blobs that no record needs, or finds them.
func (s *Store) collectOrphans(ctx context.Context, gc GC, all *Amount) (found map[modproxy.Digest]bool, err error) {
	if gc.OrphanAge < 0 {
		return nil, nil
	}
	list, err := s.list(ctx)
	old := slices.DeleteFunc(list, func(b BlobInfo) bool { return time.Since(b.Time) < gc.OrphanAge })
	found = map[modproxy.Digest]bool{}
	for group := range slices.Chunk(old, batch) {
		var going []modproxy.Digest
		for _, b := range group {
			if gc.DryRun {
				by, _, err := s.needing(ctx, b.Digest)
				if err != nil {
					return nil, err
				}
				if len(by) == 0 {
					found[b.Digest] = true
					all.add(b.Size)
					gc.found(b, nil)
				}
			} else if s.room.beginRemoval(b.Digest) { // else it is about to have a record
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

// overhang returns what would be evicted to leave limit bytes, beside orphans.
func (s *Store) overhang(ctx context.Context, gc GC, limit int64, orphans map[modproxy.Digest]bool) (all Amount, err error) {
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
			gc.found(BlobInfo{Digest: b.Digest, Size: b.Size}, by[b.Digest])
		}
	}
	return all, nil
}
