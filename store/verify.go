package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
)

// Check says what [Store.Verify] looks at. Found and Progress are not called at the same time; nil is fine.
type Check struct {
	// Data reads every blob and compares its bytes with the digest, and with what the records say that need it.
	Data bool
	// Repair sets damaged blobs aside, and deletes records that are damaged or whose blobs are gone. With Data
	// it also makes the records of blobs that have none, as [Store.Rebuild] does.
	Repair bool
	// Found is told of everything that is wrong.
	Found func(Damage)
	// Progress is told now and then what has been looked at so far.
	Progress func(Verified)
}

// Damage is something that is wrong.
type Damage struct {
	Kind     DamageKind      `json:"kind"`
	Ref      Ref             `json:"-"`               // of the record, or of one that needs the blob
	Digest   modproxy.Digest `json:"digest,omitzero"` // of the blob; zero if it is about the record
	Text     string          `json:"text"`
	Repaired bool            `json:"repaired,omitempty"`
}

// DamageKind says what is damaged.
type DamageKind string

const (
	DamagedIndex  DamageKind = "index_damaged"   // the storage of the records, which is not repaired
	DamagedRecord DamageKind = "record_damaged"  // it is not what was put
	LostRecord    DamageKind = "record_missing"  // there are traces of it
	WrongRecord   DamageKind = "pin_differs"     // it says something that does not count
	MissingBlob   DamageKind = "package_missing" // a record needs it
	DamagedBlob   DamageKind = "package_damaged" // its bytes are not those that its digest or a record names
	Unreadable    DamageKind = "unreadable"      // it could not be looked at, which says nothing about it; it stays
)

// Verified is what [Store.Verify] has looked at.
type Verified struct {
	Records    int     `json:"records"`
	Kept       Amount  `json:"kept"`                 // blobs that records need
	Superseded int     `json:"superseded,omitempty"` // records of what does not count any more, which is no damage
	Orphans    Amount  `json:"orphans"`              // blobs that no record needs, which is no damage: a crash leaves them
	Total      int64   `json:"total_bytes"`          // of all blobs, before the first was read
	Read       int64   `json:"read_bytes"`
	Damage     int     `json:"damage"` // how often Found was told, repaired or not
	Repaired   int     `json:"repaired"`
	Seconds    float64 `json:"seconds"`
}

// Verify compares records with what their kinds say, and with the blobs that they need. What changes meanwhile is not
// reported. The error is that it could not go on.
func (s *Store) Verify(ctx context.Context, c Check) (Verified, error) {
	return s.verify(ctx, c, false)
}

// Rebuild reads every blob, sets damaged ones aside, and puts the records that need it, as Kinds say, unless they are
// there. Of c only Found and Progress count; Records of the answer are those that were put.
func (s *Store) Rebuild(ctx context.Context, c Check) (Verified, error) {
	c.Data, c.Repair = true, true
	return s.verify(ctx, c, true)
}

// verify looks at records and then at blobs. With rebuild it takes every blob for one without records.
func (s *Store) verify(ctx context.Context, c Check, rebuild bool) (Verified, error) {
	s.init()
	v := &verification{Store: s, asked: c, blobs: map[modproxy.Digest]verifiedBlob{}, started: time.Now()}
	v.rebuilders = map[Kind]func() (Rebuilder, error){}
	for kind, keeper := range s.Kinds {
		if keeper != nil {
			v.rebuilders[kind] = sync.OnceValues(func() (Rebuilder, error) { return keeper.Rebuild(ctx) })
		}
	}
	if !rebuild {
		if sound, err := v.inspect(ctx); err != nil || !sound {
			v.progress()
			return v.out, failure(ctx, err)
		}
	}
	err := s.eachBlob(ctx, func(b BlobInfo) {
		v.blobs[b.Digest] = verifiedBlob{size: b.Size}
		v.out.Total += b.Size
	})
	if err == nil && !rebuild {
		err = v.verifyRecords(ctx)
	}
	if err == nil {
		group, within := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for d, b := range v.blobs {
			if within.Err() != nil {
				break
			}
			group.Go(func() error { return v.verifyBlob(within, d, b) })
		}
		err = errors.Join(group.Wait(), ctx.Err())
	}
	if err == nil {
		v.reportLost(ctx)
	}
	v.progress()
	return v.out, failure(ctx, err)
}

// verification is a call of Verify or Rebuild.
type verification struct {
	*Store
	asked      Check
	blobs      map[modproxy.Digest]verifiedBlob
	rebuilders map[Kind]func() (Rebuilder, error) // begun when the first blob is met that has no records
	lost       []Loss
	started    time.Time

	mu   sync.Mutex // guards what follows, and calls of Found and Progress
	out  Verified
	told time.Time // when Progress was last called
}

type verifiedBlob struct {
	size            int64
	needed, damaged bool // as records say
}

func (v *verification) verifyRecords(ctx context.Context) error {
	for r, err := range v.Records.List(ctx, "", "") {
		switch {
		case err == nil:
			v.verifyRecord(ctx, r)
		case errors.Is(err, ErrDamaged):
			v.report(Damage{Kind: DamagedRecord, Ref: r.Ref, Text: "the record is not what was written"}, func() error {
				return v.Records.Delete(ctx, r.Ref, r.Revision)
			})
		default:
			return err
		}
		v.count(func(out *Verified) { out.Records++ })
	}
	return nil
}

func (v *verification) verifyRecord(ctx context.Context, r Record) {
	var sizes []int64
	var wrong *Damage
	if keeper := v.Kinds[r.Kind]; keeper != nil {
		var err error
		switch sizes, err = keeper.Verify(ctx, r); {
		case err == nil:
		case errors.Is(err, modproxy.ErrChanged):
			v.count(func(out *Verified) { out.Superseded++ })
		case ctx.Err() == nil && v.unchanged(ctx, r):
			wrong = &Damage{Kind: Unreadable, Ref: r.Ref, Text: err.Error()}
			if errors.Is(err, ErrDamaged) {
				wrong.Kind = WrongRecord
			}
		}
	}
	for i, d := range r.Needs {
		b, ok := v.blobs[d]
		if !ok { // it may have been put a moment ago
			info, err := v.Blobs.Stat(ctx, d)
			if err != nil {
				v.reportBlob(ctx, r, d, err)
				continue
			}
			b.size = info.Size
		}
		if !b.needed {
			b.needed = true
			v.count(func(out *Verified) { out.Kept.add(b.size) })
		}
		if i < len(sizes) && sizes[i] != b.size {
			b.damaged = true
			v.reportBlob(ctx, r, d, fmt.Errorf("%w: %d bytes, and %d in its record", ErrDamaged, b.size, sizes[i]))
		}
		v.blobs[d] = b
	}
	if wrong != nil {
		var repair func() error
		if !v.unchanged(ctx, r) { // it went with a blob that is not there
			repair = func() error { return nil }
		}
		v.report(*wrong, repair)
	}
}

// reportBlob reports that a blob is not what r needs, because of err. Without a revision r is only named, and
// err is about the blob itself.
func (v *verification) reportBlob(ctx context.Context, r Record, d modproxy.Digest, err error) {
	absent := errors.Is(err, fs.ErrNotExist)
	if ctx.Err() != nil || r.Revision == 0 && absent || r.Revision != 0 && !v.unchanged(ctx, r) {
		return // it was removed, or has changed
	}
	damage := Damage{Kind: Unreadable, Ref: r.Ref, Digest: d, Text: err.Error()}
	var repair func() error
	switch {
	case absent:
		damage.Kind, damage.Text = MissingBlob, "the package is not there"
		repair = func() error { return v.Records.Delete(ctx, r.Ref, r.Revision) }
	case errors.Is(err, ErrDamaged):
		damage.Kind = DamagedBlob
		repair = func() error {
			err := v.Check(ctx, d)
			if err == nil && r.Revision != 0 { // the bytes are right, and the record is not
				err = v.Records.Delete(ctx, r.Ref, r.Revision)
			}
			return err
		}
	}
	v.report(damage, repair)
}

func (v *verification) unchanged(ctx context.Context, r Record) bool {
	is, err := v.Records.Get(ctx, r.Ref)
	return err == nil && is.Revision == r.Revision
}

// report calls Found. With Repair it calls repair before, unless that is nil. What was deleted, replaced or set
// aside meanwhile is repaired, too.
func (v *verification) report(d Damage, repair func() error) {
	if v.asked.Repair && repair != nil {
		err := repair()
		d.Repaired = err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist)
		if !d.Repaired {
			d.Text += "; repair: " + err.Error()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.Damage++
	if d.Repaired {
		v.out.Repaired++
	}
	if v.asked.Found != nil {
		v.asked.Found(d)
	}
}

// count changes what was looked at, and calls Progress now and then.
func (v *verification) count(change func(*Verified)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.out)
	if time.Since(v.told) >= time.Second/5 {
		v.progress()
	}
}

// progress calls Progress. It is called with mu held, or when all is over.
func (v *verification) progress() {
	v.told = time.Now()
	v.out.Seconds = time.Since(v.started).Seconds()
	if v.asked.Progress != nil {
		v.asked.Progress(v.out)
	}
}
