package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// Check says what [Store.Verify] looks at, and who is told. Found and Progress are
// not called at the same time.
type Check struct {
	// Data reads every package and compares its bytes with their digest.
	Data bool
	// Sum names the content of a package by its bytes, when Data reads it. Nil:
	// only digests are compared.
	Sum func(io.Reader) (modproxy.Sum, error)
	// Pinned is what counts for a version elsewhere; [fs.ErrNotExist] when nothing
	// does, which is damage. Nil: nobody is asked.
	Pinned func(m modproxy.Module, version string) (modproxy.Sum, error)
	// Repair sets damaged packages aside, and makes what is missing of the index
	// and of the copies beside it from the other.
	Repair bool
	// Retire calls take, by which a repair takes a package away, while nobody keeps
	// one under the digest, and knows from then on whether it is gone. Nil: take is
	// called.
	Retire func(d modproxy.Digest, take func() (gone bool, err error)) error
	// Found is told of everything that is wrong. Nil is fine.
	Found func(Damage)
	// Progress is told what has been looked at so far, now and then. Nil is fine.
	Progress func(Verified)
}

// Damage is something that is wrong.
type Damage struct {
	Kind     Kind            `json:"kind"`
	Module   modproxy.Module `json:"-"`
	Version  string          `json:"version,omitempty"`
	Digest   modproxy.Digest `json:"-"` // of the package; zero where the record is not known
	Text     string          `json:"text"`
	Repaired bool            `json:"repaired,omitempty"`
}

// Kind says what is damaged.
type Kind string

const (
	RecordDamaged  Kind = "record_damaged"  // a package record in the index is not what was written
	RecordMissing  Kind = "record_missing"  // a package record is beside the index, and not in it
	CopyMissing    Kind = "copy_missing"    // a package record is in the index, and not beside it
	CopyDamaged    Kind = "copy_damaged"    // a copy of a package record is not what was written
	CopyDiffers    Kind = "copy_differs"    // the index and the copy beside it say different things
	ListDamaged    Kind = "list_damaged"    // a list of versions is not what was written; it is asked for again
	PackageMissing Kind = "package_missing" // a package is not there, and was not evicted
	PackageDamaged Kind = "package_damaged" // the bytes of a package are not those of its record
	PinDiffers     Kind = "pin_differs"     // a record says something else than counts for its version
	Unreadable     Kind = "unreadable"      // something could not be looked at, which says nothing about it: it is left alone
)

// Verified is what [Store.Verify] has looked at.
type Verified struct {
	Records   int           `json:"records"`       // of packages
	Total     int           `json:"total_records"` // that there are
	Packages  cache.Removed `json:"kept"`          // each once, however many versions it is of
	Evicted   int           `json:"evicted"`       // records whose package was evicted
	Orphans   cache.Removed `json:"orphans"`       // packages without a record, which is no damage: a crash leaves them
	Read      int64         `json:"read_bytes"`
	Damage    int           `json:"damage"` // how often Found was told, repaired or not
	Repaired  int           `json:"repaired"`
	Seconds   float64       `json:"seconds"`
	startedAt time.Time
}

// Verify holds records, their copies and the packages to each other. Others may
// work with the store meanwhile: what they change is looked at again before it is
// told. Its error is that it could not go on.
func (s *Store) Verify(ctx context.Context, c Check) (Verified, error) {
	v := &verification{Store: s, Check: c, seen: map[modproxy.Digest]modproxy.Sum{}, named: map[string]bool{}}
	v.out.startedAt = time.Now()
	err := v.run(ctx)
	v.report()
	return v.out, err
}

// verification is one under way.
type verification struct {
	*Store
	Check
	seen  map[modproxy.Digest]modproxy.Sum // packages that are recorded
	named map[string]bool                  // sidecars of records in the index

	mu       sync.Mutex // guards what follows, and calls of Found and Progress
	out      Verified
	reported time.Time
}

func (v *verification) run(ctx context.Context) error {
	if err := v.view(func(tx *bbolt.Tx) error {
		a, err := readAbout(tx)
		v.out.Total = a.Packages
		return err
	}); err != nil {
		return err
	}
	reading := v.startReading(ctx)
	err := v.records(ctx, reading)
	reading.end()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{v.copies, v.lists, v.blobs} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// found tells of damage; repair, if it may be done, is tried before.
func (v *verification) found(d Damage, repair func() error) {
	if v.Repair && repair != nil {
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
	if v.Found != nil {
		v.Found(d)
	}
}

// foundBy is found for what err says of something: that it is damaged, which is
// damage of the kind, or that it could not be read.
func (v *verification) foundBy(err error, d Damage, kind Kind, repair func() error) {
	d.Kind, d.Text = kind, err.Error()
	if !damaged(err) {
		d.Kind, repair = Unreadable, nil
	}
	v.found(d, repair)
}

// damaged tells whether err says that something is not what was written. What may
// not be read now, or cannot for want of something else, may be whole.
func damaged(err error) bool {
	return (errors.Is(err, errDamaged) || errors.Is(err, cache.ErrDamaged)) && !errors.Is(err, fs.ErrPermission)
}

// count changes what was looked at, and reports it now and then.
func (v *verification) count(f func(out *Verified)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(&v.out)
	if time.Since(v.reported) > 100*time.Millisecond {
		v.reportLocked()
	}
}

func (v *verification) report() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reportLocked()
}

func (v *verification) reportLocked() {
	v.out.Seconds = time.Since(v.out.startedAt).Seconds()
	v.reported = time.Now()
	if v.Progress != nil {
		v.Progress(v.out)
	}
}

// records looks at every record in the index.
func (v *verification) records(ctx context.Context, reading *reading) error {
	for entry, err := range v.each(packagesBucket, nil) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		kept, err := readPackage(entry.key, entry.value)
		v.named[sidecarName(entry.key)] = true
		if err != nil {
			v.found(Damage{Kind: RecordDamaged, Module: kept.Module, Version: kept.Version, Text: "the record in the index is damaged"},
				func() error { _, err := v.Package(kept.Module, kept.Version); return err })
			// What it says is known all the same, if there is a copy.
			if _, kept, err = v.readSidecar(sidecarName(entry.key)); err != nil {
				continue
			}
		} else {
			v.copyOf(entry.key, entry.value, kept)
		}
		v.record(kept, reading)
		v.count(func(out *Verified) { out.Records++ })
	}
	return nil
}

// copyOf compares a record with its sidecar.
func (v *verification) copyOf(key, value []byte, kept cache.Kept) {
	name := sidecarName(key)
	copied, _, err := v.readSidecar(name)
	if err == nil && bytes.Equal(copied, value) {
		return
	}
	// It may have been replaced just now: the copy first, then the record.
	defer v.lock(key)()
	now := v.valueOf(key)
	copied, _, err = v.readSidecar(name)
	d := Damage{Module: kept.Module, Version: kept.Version, Digest: kept.Record.Digest}
	switch {
	case err == nil && bytes.Equal(copied, now):
	case err == nil:
		d.Kind, d.Text = CopyDiffers, "the record in the index and the copy beside it differ"
		v.found(d, func() error {
			if v.pinned(now) && !v.pinned(copied) {
				return v.writeSidecar(name, now)
			}
			// The copy is written first: it is the newer one.
			return v.update(func(tx *bbolt.Tx) error { return putNew(tx, key, copied) })
		})
	case errors.Is(err, fs.ErrNotExist):
		d.Kind, d.Text = CopyMissing, "the copy of the record beside the index is missing"
		v.found(d, func() error { return v.writeSidecar(name, now) })
	default:
		v.foundBy(err, d, CopyDamaged, func() error {
			if _, err := v.setAside(v.sidecarPath(name)); err != nil {
				return err
			}
			return v.writeSidecar(name, now)
		})
	}
}

// pinned tells whether a record has the sum that counts elsewhere.
func (v *verification) pinned(value []byte) bool {
	kept, err := unsealPackage(value)
	return err == nil && counts(v.Pinned, kept.Module, kept.Version, kept.Record.Sum)
}

func counts(pinned func(modproxy.Module, string) (modproxy.Sum, error), m modproxy.Module, version string, sum modproxy.Sum) bool {
	if pinned == nil {
		return false
	}
	is, err := pinned(m, version)
	return err == nil && is == sum
}

func (v *verification) valueOf(key []byte) (value []byte) {
	_ = v.view(func(tx *bbolt.Tx) error { // else there is none
		value = bytes.Clone(tx.Bucket(packagesBucket).Get(key))
		return nil
	})
	return value
}

// record looks at what a record is about.
func (v *verification) record(kept cache.Kept, reading *reading) {
	rec := kept.Record
	d := Damage{Module: kept.Module, Version: kept.Version, Digest: rec.Digest}
	if v.Pinned != nil {
		sum, err := v.Pinned(kept.Module, kept.Version)
		if err == nil && sum != rec.Sum {
			err = fmt.Errorf("it is %s there", sum)
		}
		if err != nil && v.stands(kept) {
			d.Kind, d.Text = PinDiffers, fmt.Sprintf("the record says %s: %v", rec.Sum, err)
			v.found(d, nil)
		}
	}
	if rec.Removed { // whoever else has the bytes, it does not
		v.count(func(out *Verified) { out.Evicted++ })
		return
	}
	sum, again := v.seen[rec.Digest]
	if again {
		if sum != rec.Sum && v.stands(kept) {
			d.Kind, d.Text = PackageDamaged, fmt.Sprintf("the same bytes are said to be %s and %s", sum, rec.Sum)
			v.found(d, nil)
		}
		return
	}
	v.seen[rec.Digest] = rec.Sum
	blob, err := os.Lstat(v.blobPath(rec.Digest))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.missing(kept, d)
		return
	case err == nil && !blob.Mode().IsRegular():
		err = fmt.Errorf("%w: it is not a plain file", cache.ErrDamaged)
	case err == nil && blob.Size() != rec.Size:
		err = fmt.Errorf("%w: %d bytes, and %d in its record", cache.ErrDamaged, blob.Size(), rec.Size)
	}
	if err != nil {
		if v.stands(kept) {
			v.foundBy(err, d, PackageDamaged, func() error { return v.retire(rec.Digest, blob) })
		}
		return
	}
	v.count(func(out *Verified) { out.Packages.Packages++; out.Packages.Bytes += blob.Size() })
	reading.read(kept)
}

// missing looks at why a package is not there.
func (v *verification) missing(kept cache.Kept, d Damage) {
	if use, err := v.useOf(kept.Record.Digest); err == nil && use.Evicted {
		v.count(func(out *Verified) { out.Evicted++ })
		return
	}
	if _, err := v.Stat(kept.Record.Digest); err == nil || !v.stands(kept) {
		return
	}
	d.Kind, d.Text = PackageMissing, "the package is not there, and was not evicted"
	v.found(d, func() error {
		return v.take(d.Digest, func() (bool, error) {
			if _, err := v.Stat(d.Digest); err == nil {
				return false, nil // it was fetched again
			}
			return true, v.miss(d.Digest)
		})
	})
}

// retire sets a damaged package aside, of which is was seen, unless there is
// another one now.
func (v *verification) retire(d modproxy.Digest, is fs.FileInfo) error {
	return v.take(d, func() (bool, error) {
		if !v.still(d, is) {
			return false, nil
		}
		if err := v.Quarantine(d); err != nil {
			return false, err
		}
		return true, v.miss(d)
	})
}

func (v *verification) take(d modproxy.Digest, take func() (gone bool, err error)) error {
	if v.Retire != nil {
		return v.Retire(d, take)
	}
	_, err := take()
	return err
}

// still tells whether a package is the file that it was.
func (v *verification) still(d modproxy.Digest, was fs.FileInfo) bool {
	is, err := os.Lstat(v.blobPath(d))
	return err == nil && os.SameFile(is, was) && is.Size() == was.Size() && is.ModTime().Equal(was.ModTime())
}

// miss says of a package that is not there that it is fetched again when it is
// asked for.
func (v *verification) miss(d modproxy.Digest) error {
	return v.PutUses([]cache.Use{{Digest: d, Last: time.UnixMilli(0), Evicted: true}})
}

// stands tells whether the record is what it was.
func (v *verification) stands(kept cache.Kept) bool {
	rec, err := v.packageOf(packageKey(kept.Module, kept.Version))
	return err == nil && rec == kept.Record
}
