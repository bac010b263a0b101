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

// Check is the task of [Store.Verify]. Found and Progress are not called concurrently. Each may be nil.
type Check struct {
	// Data reads every blob and compares its bytes with the digest, and with the records that need it.
	Data bool
	// Repair quarantines damaged blobs, and deletes records that are damaged or whose blobs are missing. With Data it
	// also restores the records of blobs that have none, as [Store.Rebuild] does.
	Repair bool
	// Found is called for every damage.
	Found func(Damage)
	// Progress is called from time to time with the counts so far.
	Progress func(Verified)
}

// Damage is one damage.
type Damage struct {
	Kind     DamageKind      `json:"kind"`
	Ref      Ref             `json:"-"`               // the record, or one that needs the blob
	Digest   modproxy.Digest `json:"digest,omitzero"` // the blob; zero if the damage is in the record
	Text     string          `json:"text"`
	Repaired bool            `json:"repaired,omitempty"`
}

// DamageKind is the kind of a [Damage].
type DamageKind string

const (
	DamagedIndex  DamageKind = "index_damaged"   // the storage of the records, which is not repaired
	DamagedRecord DamageKind = "record_damaged"  // it differs from the record that was put
	LostRecord    DamageKind = "record_missing"  // the index still refers to it
	WrongRecord   DamageKind = "pin_differs"     // its content does not count
	MissingBlob   DamageKind = "package_missing" // a record needs it
	DamagedBlob   DamageKind = "package_damaged" // its bytes have another digest than its own, or another sum or size than in a record
	Unreadable    DamageKind = "unreadable"      // it could not be checked; it may be sound, and stays
)

// Verified contains the counts of [Store.Verify].
type Verified struct {
	Records    int     `json:"records"`
	Kept       Amount  `json:"kept"`                 // blobs that records need
	Superseded int     `json:"superseded,omitempty"` // records that no longer count; not damage
	Orphans    Amount  `json:"orphans"`              // blobs that no record needs; not damage: a crash leaves them
	Total      int64   `json:"total_bytes"`          // of all blobs, before the first was read
	Read       int64   `json:"read_bytes"`
	Damage     int     `json:"damage"` // calls of Found, repaired or not
	Repaired   int     `json:"repaired"`
	Seconds    float64 `json:"seconds"`
}

// Verify compares records with their authorities, and with the blobs that they need. Concurrent changes are not
// reported. An error means that Verify could not finish.
func (s *Store) Verify(ctx context.Context, c Check) (Verified, error) {
	return s.verify(ctx, c, false)
}

// Rebuild reads every blob, quarantines damaged ones, and puts the missing records that need each blob, as made by
// Kinds. Only Found and Progress of c count. Records in the result is the number of records that were put.
func (s *Store) Rebuild(ctx context.Context, c Check) (Verified, error) {
	c.Data, c.Repair = true, true
	return s.verify(ctx, c, true)
}

// verify checks records and then blobs. With rebuild it treats every blob as one without records.
func (s *Store) verify(ctx context.Context, c Check, rebuild bool) (Verified, error) {
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

// verification is one call of Verify or Rebuild.
type verification struct {
	*Store
	asked      Check
	blobs      map[modproxy.Digest]verifiedBlob
	rebuilders map[Kind]func() (Rebuilder, error) // called for the first blob without records
	lost       []Loss
	started    time.Time

	mu   sync.Mutex // guards the fields below, and calls of Found and Progress
	out  Verified
	told time.Time // when Progress was last called
}

type verifiedBlob struct {
	size            int64
	needed, damaged bool // according to records
}

func (v *verification) verifyRecords(ctx context.Context) error {
	for r, err := range v.Records.List(ctx, "", "") {
		switch {
		case err == nil:
			v.verifyRecord(ctx, r)
		case errors.Is(err, ErrDamaged):
			v.report(Damage{Kind: DamagedRecord, Ref: r.Ref, Text: "the record differs from what was written"}, func() error {
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
		if !v.unchanged(ctx, r) { // it was deleted with a missing blob
			repair = func() error { return nil }
		}
		v.report(*wrong, repair)
	}
}

// reportBlob reports that a blob is not the one that r needs, because of err. If r has no revision, r only names a
// record, and err is about the blob itself.
func (v *verification) reportBlob(ctx context.Context, r Record, d modproxy.Digest, err error) {
	absent := errors.Is(err, fs.ErrNotExist)
	if ctx.Err() != nil || r.Revision == 0 && absent || r.Revision != 0 && !v.unchanged(ctx, r) {
		return // it was removed, or has changed
	}
	damage := Damage{Kind: Unreadable, Ref: r.Ref, Digest: d, Text: err.Error()}
	var repair func() error
	switch {
	case absent:
		damage.Kind, damage.Text = MissingBlob, "the package is missing"
		repair = func() error { return v.Records.Delete(ctx, r.Ref, r.Revision) }
	case errors.Is(err, ErrDamaged):
		damage.Kind = DamagedBlob
		repair = func() error {
			err := v.Check(ctx, d)
			if err == nil && r.Revision != 0 { // the bytes are right, and the record is wrong
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

// report calls Found. With Repair it first calls repair, unless that is nil. A record or blob that was deleted,
// replaced or quarantined meanwhile counts as repaired.
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

// count changes the counts, and calls Progress from time to time.
func (v *verification) count(change func(*Verified)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.out)
	if time.Since(v.told) >= time.Second/5 {
		v.progress()
	}
}

// progress calls Progress. The caller holds mu, or all other work has ended.
func (v *verification) progress() {
	v.told = time.Now()
	v.out.Seconds = time.Since(v.started).Seconds()
	if v.asked.Progress != nil {
		v.asked.Progress(v.out)
	}
}
