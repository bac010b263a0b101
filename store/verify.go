package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// Check says what [Store.Verify] looks at. Found and Progress are not called at the same
// time; nil is fine.
type Check struct {
	// Data reads every blob and compares its bytes with the digest, and with what the
	// records say that need it.
	Data bool
	// Repair sets damaged blobs aside, and deletes records that are damaged or whose blobs
	// are gone. With Data it also makes the records of blobs that have none, as
	// [Store.Rebuild] does.
	Repair bool
	// Found is told of everything that is wrong.
	Found func(Damage)
	// Progress is told now and then what has been looked at so far.
	Progress func(Verified)
}

// Damage is something that is wrong.
type Damage struct {
	Kind     DamageKind      `json:"kind"`
	Ref      Ref             `json:"-"` // of the record, or of one that needs the blob
	Digest   modproxy.Digest `json:"-"` // of the blob; zero if it is about the record
	Text     string          `json:"text"`
	Repaired bool            `json:"repaired,omitempty"`
}

// DamageKind says what is damaged.
type DamageKind string

const (
	DamagedRecord DamageKind = "record_damaged"  // it is not what was put
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

// Verify compares records with what their kinds say, and with the blobs that they need.
// The storage may be used meanwhile: what has changed is not told. The error is that it
// could not go on.
func (s *Store) Verify(ctx context.Context, c Check) (Verified, error) {
	v, err := s.newVerification(ctx, c)
	if err != nil {
		return v.out, err
	}
	read, end := v.startReading(ctx, v.verifyBlob)
	err = v.records(ctx, read)
	if err = errors.Join(err, end()); err != nil {
		return v.out, failure(ctx, err)
	}
	read, end = v.startReading(ctx, v.rebuildBlob)
	for d, b := range v.blobs {
		switch {
		case b.needed:
		case c.Data && c.Repair:
			read(d)
		default:
			v.out.Orphans.add(b.size)
		}
	}
	err = end()
	v.report()
	return v.out, failure(ctx, err)
}

// verification is one under way.
type verification struct {
	*Store
	asked   Check
	blobs   map[modproxy.Digest]*verifiedBlob
	started time.Time

	mu       sync.Mutex // guards what follows, and calls of Found and Progress
	out      Verified
	reported time.Time
}

type verifiedBlob struct {
	size   int64
	needed bool
}

// newVerification lists the blobs.
func (s *Store) newVerification(ctx context.Context, c Check) (*verification, error) {
	v := &verification{Store: s, asked: c, blobs: map[modproxy.Digest]*verifiedBlob{}, started: time.Now()}
	for info, err := range s.Blobs.Blobs(ctx) {
		if err != nil {
			return v, failure(ctx, err)
		}
		v.blobs[info.Digest] = &verifiedBlob{size: info.Size}
		v.out.Total += info.Size
	}
	return v, nil
}

func (v *verification) records(ctx context.Context, read func(modproxy.Digest)) error {
	for r, err := range v.Records.List(ctx, "", "") {
		switch {
		case err == nil:
			v.record(ctx, r, read)
		case errors.Is(err, ErrDamaged):
			v.found(Damage{Kind: DamagedRecord, Ref: r.Ref, Text: "the record is not what was written"}, func() error {
				return unless(v.Records.Delete(ctx, r.Ref, 0), ErrConflict) // which means that it was put anew
			})
		default:
			return err
		}
		v.count(func(out *Verified) { out.Records++ })
	}
	return nil
}

// unless returns err unless it is what.
func unless(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

func (v *verification) record(ctx context.Context, r Record, read func(modproxy.Digest)) {
	var sizes []int64
	if keeper := v.Kinds[r.Kind]; keeper != nil {
		err := keeper.Verify(ctx, r)
		switch {
		case err == nil:
			sizes = keeper.Sizes(r)
		case errors.Is(err, modproxy.ErrChanged):
			v.count(func(out *Verified) { out.Superseded++ })
		case ctx.Err() == nil && v.stands(ctx, r):
			found := Damage{Kind: Unreadable, Ref: r.Ref, Text: err.Error()}
			if errors.Is(err, ErrDamaged) {
				found.Kind = WrongRecord
			}
			v.found(found, nil)
		}
	}
	for i, d := range r.Needs {
		size := int64(-1)
		if i < len(sizes) {
			size = sizes[i]
		}
		v.need(ctx, r, d, size, read)
	}
}

// need looks at a blob that r needs. Its size is negative if it is not known.
func (v *verification) need(ctx context.Context, r Record, d modproxy.Digest, size int64, read func(modproxy.Digest)) {
	b := v.blobs[d]
	if b == nil { // it may have been put a moment ago
		info, err := v.Blobs.Stat(ctx, d)
		if err != nil {
			v.broken(ctx, r, d, err)
			return
		}
		b = &verifiedBlob{size: info.Size}
		v.blobs[d] = b
	}
	first := !b.needed
	b.needed = true
	if size >= 0 && b.size != size {
		v.broken(ctx, r, d, fmt.Errorf("%w: %d bytes, and %d in its record", ErrDamaged, b.size, size))
		return
	}
	if first {
		v.count(func(out *Verified) { out.Kept.add(b.size) })
		if v.asked.Data {
			read(d)
		}
	}
}

// broken tells that a blob is not what r needs, because of err. Without a revision r is
// only named, and err is about the blob itself.
func (v *verification) broken(ctx context.Context, r Record, d modproxy.Digest, err error) {
	absent := errors.Is(err, fs.ErrNotExist)
	if ctx.Err() != nil || r.Revision == 0 && absent || r.Revision != 0 && !v.stands(ctx, r) {
		return // it was removed, or has changed
	}
	found := Damage{Kind: Unreadable, Ref: r.Ref, Digest: d, Text: err.Error()}
	var repair func() error
	remove := func() error { return unless(v.Records.Delete(ctx, r.Ref, r.Revision), ErrConflict) }
	switch {
	case absent:
		found.Kind, found.Text, repair = MissingBlob, "the package is not there", remove
	case errors.Is(err, ErrDamaged):
		found.Kind = DamagedBlob
		repair = func() error {
			err := v.Check(ctx, d)
			if err == nil && r.Revision != 0 { // the bytes are right, and the record is not
				err = remove()
			}
			return unless(unless(err, ErrDamaged), fs.ErrNotExist)
		}
	}
	v.found(found, repair)
}

// stands reports whether a record is what it was.
func (v *verification) stands(ctx context.Context, r Record) bool {
	is, err := v.Records.Get(ctx, r.Ref)
	return err == nil && is.Revision == r.Revision
}

// found tells of damage; repair, if there is one, is tried before.
func (v *verification) found(d Damage, repair func() error) {
	if v.asked.Repair && repair != nil {
		if err := repair(); err != nil {
			d.Text += "; repair: " + err.Error()
		} else {
			d.Repaired = true
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

// count changes what was looked at, and tells of it now and then.
func (v *verification) count(change func(*Verified)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.out)
	if v.reported.IsZero() || time.Since(v.reported) >= time.Second/5 {
		v.report()
	}
}

// report is called with mu held, or when all is over.
func (v *verification) report() {
	v.reported = time.Now()
	v.out.Seconds = time.Since(v.started).Seconds()
	if v.asked.Progress != nil {
		v.asked.Progress(v.out)
	}
}
