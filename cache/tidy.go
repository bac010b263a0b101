package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
)

// Listing is a package record with what has become of the package.
type Listing struct {
	Kept
	Last    time.Time // when the package was last used, as far as it is known
	There   bool      // it is kept
	Evicted bool      // it was removed, and is fetched again when it is asked for
}

// List yields the package records of m, or of all modules, that records has, as
// [Index.Packages] does; nil means that Index does.
func (r *Registry) List(ctx context.Context, records Index, m modproxy.Module) iter.Seq2[Listing, error] {
	return func(yield func(Listing, error) bool) {
		r.once.Do(r.start)
		if err := r.account(); err != nil {
			yield(Listing{}, err)
			return
		}
		if records == nil {
			records = r.Index
		}
		for kept, err := range records.Packages(m) {
			l := Listing{Kept: kept}
			if err == nil {
				s := r.room.seat(kept.Record.Digest)
				if ms := s.last.Load(); ms > 0 {
					l.Last = time.UnixMilli(ms)
				}
				r.room.mu.Lock()
				l.There, l.Evicted = s.there, s.evicted
				r.room.mu.Unlock()
			}
			if !yield(l, errors.Join(err, ctx.Err())) || ctx.Err() != nil {
				return
			}
		}
	}
}

// Discarded is a package that [Registry.Discard] has removed.
type Discarded struct {
	Kept
	There  bool     // it was there
	Shared []string // modules and versions that have the same bytes: they are removed for them, too
}

// Discard removes the packages of a version, or of all versions of m when version
// is empty. Their records stay: what is fetched again must be what it was. Who is
// reading one reads on.
//
// Errors: [fs.ErrNotExist] when there is no such record, [modproxy.ErrUnavailable]
// while one of them is being fetched, and those of the stores.
func (r *Registry) Discard(ctx context.Context, m modproxy.Module, version string) ([]Discarded, error) {
	r.once.Do(r.start)
	if err := r.account(); err != nil {
		return nil, err
	}
	var list []Discarded
	of := map[modproxy.Digest]*Discarded{}
	for kept, err := range r.Index.Packages(m) {
		if err != nil {
			return nil, err
		}
		if version == "" || kept.Version == version {
			list = append(list, Discarded{Kept: kept})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s %s: no package of it was ever kept: %w", m, version, fs.ErrNotExist)
	}
	for i := range list {
		of[list[i].Record.Digest] = &list[i]
	}
	for kept, err := range r.Index.Packages(modproxy.Module{}) {
		if err != nil {
			continue // of another module; this is only to tell
		}
		d, ok := of[kept.Record.Digest]
		if ok && (kept.Module != m || version != "" && kept.Version != version) {
			d.Shared = append(d.Shared, kept.Module.String()+" "+kept.Version)
		}
	}
	give, err := r.room.take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	victims, err := r.room.condemn(list)
	if err != nil {
		return nil, err
	}
	_, err = r.evict(victims)
	return list, err
}

// condemn makes all of them go that are there, or none.
func (m *room) condemn(list []Discarded) (victims []*seat, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range list {
		s := m.seat(list[i].Record.Digest)
		if s.holds > 0 {
			return nil, fmt.Errorf("%w: %s %s is being fetched: try again", modproxy.ErrUnavailable, list[i].Module, list[i].Version)
		}
	}
	for i := range list {
		s := m.seat(list[i].Record.Digest)
		list[i].There = s.there
		if s.there && !s.going {
			s.going = true
			victims = append(victims, s)
		}
	}
	return victims, nil
}

// Retire calls take, which takes the package with that digest away, or finds that it
// is gone, and says that it is fetched again. No fetch keeps it meanwhile.
//
// Errors: that of take, and [modproxy.ErrUnavailable] while it is being fetched.
func (r *Registry) Retire(ctx context.Context, d modproxy.Digest, take func() (gone bool, err error)) error {
	r.once.Do(r.start)
	if err := r.account(); err != nil {
		return err
	}
	m := r.room
	give, err := m.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	s := m.seat(d)
	m.mu.Lock()
	needed := s.holds > 0
	s.going = !needed // in this turn nothing else is
	m.mu.Unlock()
	if needed {
		return fmt.Errorf("%w: it is being fetched: try again", modproxy.ErrUnavailable)
	}
	gone, err := take()
	m.gone(s, gone, true)
	if gone {
		m.mu.Lock()
		s.saved.Evicted = true
		m.mu.Unlock()
		r.forget(map[modproxy.Digest]bool{d: true})
	}
	return err
}

// Tidy says what [Registry.Tidy] removes.
type Tidy struct {
	// MaxSize is what the packages may have that stay, with what was set aside, in
	// bytes; those go that were not used for longest. Zero: as many as there are.
	MaxSize int64
	// OrphanAge is how long packages without a record stay: one that was put a
	// moment ago may be about to have one.
	OrphanAge time.Duration
	// DryRun removes nothing, and counts.
	DryRun bool
	// Records has the records that count; nil means that Index does.
	Records Index
}

// Tidied is what [Registry.Tidy] has removed.
type Tidied struct {
	Orphans Removed `json:"orphans"` // packages without a record
	Evicted Removed `json:"evicted"`
	Kept    int64   `json:"kept_bytes"` // what is left
}

// Tidy removes what nobody needs. Where a record cannot be read nothing is taken
// for an orphan, and the error says so.
func (r *Registry) Tidy(ctx context.Context, t Tidy) (out Tidied, err error) {
	r.once.Do(r.start)
	if err := errors.Join(r.account(), r.accountBeside()); err != nil {
		return out, err
	}
	started := time.Now()
	if t.Records == nil {
		t.Records = r.Index
	}
	recorded := map[modproxy.Digest]bool{}
	for kept, err := range t.Records.Packages(modproxy.Module{}) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return out, fmt.Errorf("records: %s %s: %w", kept.Module, kept.Version, err)
		}
		recorded[kept.Record.Digest] = true
	}
	give, err := r.room.take(ctx)
	if err != nil {
		return out, err
	}
	defer give()
	for blob, err := range r.Blobs.All() {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return out, err
		}
		if recorded[blob.Digest] || started.Sub(blob.Time) < t.OrphanAge {
			continue
		}
		if err := r.removeOrphan(blob, started, t.DryRun, &out.Orphans); err != nil {
			return out, err
		}
	}
	if t.MaxSize > 0 && t.DryRun {
		out.Evicted = r.room.overhang(t.MaxSize+out.Orphans.Bytes, recorded)
	} else if t.MaxSize > 0 {
		out.Evicted, err = r.shrink(t.MaxSize)
	}
	out.Kept, _ = r.Usage()
	if t.DryRun {
		out.Kept -= out.Orphans.Bytes + out.Evicted.Bytes
	}
	return out, err
}

// removeOrphan removes a blob that had no record when started, unless one was made
// since. It is called in its turn.
func (r *Registry) removeOrphan(blob BlobInfo, started time.Time, dry bool, all *Removed) error {
	m := r.room
	s := m.seat(blob.Digest)
	m.mu.Lock()
	needed := s.holds > 0 || s.going || s.readers.Load() > 0 || !s.fetched.Before(started)
	s.going = s.going || !needed && !dry
	m.mu.Unlock()
	if needed {
		return nil
	}
	if !dry {
		err := r.Blobs.Remove(blob.Digest)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		m.gone(s, err == nil, false)
		if err != nil {
			return err
		}
	}
	all.add(blob.Size)
	return nil
}

// overhang is what would go, of what is recorded, to leave limit bytes.
func (m *room) overhang(limit int64, recorded map[modproxy.Digest]bool) (all Removed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	over := m.used + m.beside - limit
	for _, q := range m.line() {
		if over <= 0 {
			break
		}
		if recorded[q.digest] && q.idle() {
			all.add(q.size)
			over -= q.size
		}
	}
	return all
}
