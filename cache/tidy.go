package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
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
				l.Evicted = kept.Record.Removed
				r.room.mu.Lock()
				if s := r.room.known(kept.Record.Digest); s != nil {
					if ms := s.last.Load(); ms > 0 {
						l.Last = time.UnixMilli(ms)
					}
					l.There = s.there.Load() && !kept.Record.Removed
					l.Evicted = l.Evicted || s.evicted
				}
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
	Shared []string // what else needs the same bytes, which therefore stay
}

// Discard removes the packages of a version, or of all versions of m when version
// is empty. Their bytes go, unless another record needs them. Their records stay:
// what is fetched again must be what it was. Who is reading one reads on.
//
// Errors: [fs.ErrNotExist] when there is no such record, [modproxy.ErrUnavailable]
// while one of them is being fetched, and those of the stores. Nothing is removed
// when it is not known what needs the bytes.
func (r *Registry) Discard(ctx context.Context, m modproxy.Module, version string) ([]Discarded, error) {
	r.once.Do(r.start)
	r.Forget(m, version) // what could not be fetched is tried again at once
	if err := r.account(); err != nil {
		return nil, err
	}
	var list []Discarded
	leaving := map[string]bool{}
	for kept, err := range r.Index.Packages(m) {
		if err != nil {
			return nil, err
		}
		if version == "" || kept.Version == version {
			list = append(list, Discarded{Kept: kept})
			leaving[kept.String()] = true
		}
	}
	if len(list) == 0 {
		return nil, absent(strings.TrimSpace(fmt.Sprintf("%s %s", m, version)) + ": no package of it was ever kept")
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
	// From here on nothing new comes to need them: a fetch waits for what is going.
	needed, err := r.needed(leaving)
	for i := 0; i < len(list) && err == nil; i++ {
		if d := &list[i]; d.There && len(needed[d.Record.Digest]) > 0 {
			d.Shared = needed[d.Record.Digest]
			err = r.markRemoved(key{d.Module, d.Version})
		}
	}
	victims = slices.DeleteFunc(victims, func(s *seat) bool {
		stays := err != nil || len(needed[s.digest]) > 0
		if stays {
			r.room.gone(s, false, false)
		}
		return stays
	})
	if err != nil {
		return nil, err
	}
	_, err = r.remove(victims, func(*seat) {})
	return list, err
}

// absent is the text of an error that is [fs.ErrNotExist], which has a text for files.
type absent string

func (a absent) Error() string      { return string(a) }
func (absent) Is(target error) bool { return target == fs.ErrNotExist }

// references yields what [Registry.References] does.
func (r *Registry) references() iter.Seq2[Reference, error] {
	if r.References != nil {
		return r.References()
	}
	return ReferencesOf(r.Index.Packages(modproxy.Module{}))
}

// ReferencesOf yields what package records need.
func ReferencesOf(packages iter.Seq2[Kept, error]) iter.Seq2[Reference, error] {
	return func(yield func(Reference, error) bool) {
		for kept, err := range packages {
			if err == nil && kept.Record.Removed {
				continue
			}
			if !yield(Reference{kept.Record.Digest, kept.String()}, err) {
				return
			}
		}
	}
}

// needed is who needs a blob beside those that are leaving. What cannot be read may
// need any.
func (r *Registry) needed(leaving map[string]bool) (map[modproxy.Digest][]string, error) {
	by := map[modproxy.Digest][]string{}
	for ref, err := range r.references() {
		if err != nil {
			return nil, fmt.Errorf("what else needs the bytes is not known: %s: %w", ref.By, err)
		}
		if !leaving[ref.By] {
			by[ref.Digest] = append(by[ref.Digest], ref.By)
		}
	}
	return by, nil
}

// markRemoved records that the package of k was removed, although its bytes stay.
func (r *Registry) markRemoved(k key) error {
	defer r.Forget(k.Module, k.version)
	defer lock(r, k)()
	rec, err := r.Index.Package(k.Module, k.version)
	if err != nil {
		return err
	}
	rec.Removed = true
	return r.Index.PutPackage(k.Module, k.version, rec)
}

// condemn makes all of them go that are there, or none.
func (m *room) condemn(list []Discarded) (victims []*seat, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range list {
		if s := m.known(list[i].Record.Digest); s != nil && s.holds > 0 {
			return nil, fmt.Errorf("%w: %s %s is being fetched: try again", modproxy.ErrUnavailable, list[i].Module, list[i].Version)
		}
	}
	for i := range list {
		s := m.known(list[i].Record.Digest)
		list[i].There = s != nil && s.there.Load() && !list[i].Record.Removed
		if list[i].There && !s.going {
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
	m.mu.Lock()
	s := m.seat(d)
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
	recorded := map[modproxy.Digest]bool{}
	for ref, err := range r.references() {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return out, fmt.Errorf("records: %s: %w", ref.By, err)
		}
		recorded[ref.Digest] = true
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
	m.mu.Lock()
	s := m.seat(blob.Digest)
	needed := s.holds > 0 || s.going || s.readers.Load() > 0 || !s.fetched.Before(started)
	s.going = s.going || !needed && !dry
	m.settle(s)
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
