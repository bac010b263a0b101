package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/boltfile"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/filelock"
	"github.com/modproxy/modproxy/store"
)

// Renewal is a directory with a new index that has not replaced the old one yet.
type Renewal struct {
	*Directory
	Problem string             // what is wrong with the old index; empty if it is sound
	Kept    map[store.Kind]int // number of recovered records
	Damaged int                // number of records in the old index that differ from what was written, and are not in the new one

	old  string   // path of the old index
	file *os.File // the old index; nil if it cannot be read
}

// newIndexName is the name of a new index until Finish.
const newIndexName = tempBase + ".index.tmp"

// Renew opens a directory with a new index beside the old one, in any state of the old one. The new index contains the
// records of the old one whose blobs exist, as far as the pages of the old one can be read. [Renewal.Finish] replaces
// the old index. No process may have the directory open.
func Renew(ctx context.Context, dir string) (*Renewal, error) {
	r := &Renewal{Directory: newDirectory(dir), Kept: map[store.Kind]int{}}
	r.old = r.index
	err := r.prepare()
	if errors.Is(err, errLayout) {
		r.Problem = err.Error()
		if err = r.disk.MkdirAll(r.path(quarantineName)); err == nil {
			_, err = r.setAside(r.path(layoutName))
		}
		if err == nil {
			err = r.prepare()
		}
	}
	if err == nil {
		err = r.openOld()
	}
	if err == nil {
		err = durable.RemoveTemps(r.path(tempName), tempBase)
	}
	if err == nil {
		// Finish flushes it. Nothing depends on it before.
		r.index = r.path(tempName, newIndexName)
		err = r.openBolt(bbolt.Options{NoSync: true}, true)
	}
	if err == nil && r.file != nil {
		err = r.takeOver(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild of %s: %w", dir, errors.Join(err, r.Close()))
	}
	return r, nil
}

// openOld opens and locks the old index, if possible.
func (r *Renewal) openOld() error {
	file, err := durable.OpenRegular(r.old, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case errors.Is(err, fs.ErrNotExist):
		r.note(errors.New("is missing"))
		return nil
	case err != nil: // it is not a file, or is on a lost part of the disk
		r.note(fmt.Errorf("cannot be opened: %w", err))
		return nil
	}
	r.file = file
	if errors.Is(filelock.TryRLock(file), filelock.ErrLocked) {
		return fmt.Errorf("%s: %w", r.old, errHeld)
	}
	return nil
}

// note records the first problem of the old index.
func (r *Renewal) note(problem error) {
	if r.Problem == "" {
		r.Problem = fmt.Sprintf("the index %v", problem)
	}
}

// takeOver copies the records of the old index whose blobs exist into the new one.
func (r *Renewal) takeOver(ctx context.Context) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		r.note(errors.New("is empty"))
		return nil
	}
	pages, err := boltfile.Open(r.file, info.Size())
	if pages == nil {
		r.note(fmt.Errorf("is %w", err))
		return nil
	}
	if err == nil {
		var found *inspection
		if found, err = inspect(ctx, pages); err == nil {
			if _, problem := found.damage(); problem != nil {
				r.note(problem)
			}
		}
	}
	if err != nil {
		r.note(fmt.Errorf("is %w", err))
	}
	t := &taking{Renewal: r, ctx: ctx, taken: map[store.Ref]uint64{}}
	if err := pages.Walk(ctx, boltfile.Visitor{Entry: t.entry, Damaged: func(err error) { r.note(fmt.Errorf("is %w", err)) }}); err != nil {
		return err
	}
	return t.put()
}

// taking is one call of takeOver. A damaged index may contain a record twice, or in an earlier state. The last revision
// counts.
type taking struct {
	*Renewal
	ctx   context.Context
	taken map[store.Ref]uint64 // their revisions in the old index
	list  []store.Record       // to be put together
	size  int
}

// entry takes a record of the old index.
func (t *taking) entry(bucket, key, value []byte) error {
	const most, mostBytes = 1000, 16 << 20
	ref, ok := refOf(bucket, key)
	if !ok {
		return nil
	}
	record, err := unseal(ref, bytes.Clone(value))
	if err == nil {
		err = check(record)
	}
	if err != nil {
		t.Damaged++
		return nil
	}
	t.list, t.size = append(t.list, record), t.size+len(value)
	if len(t.list) < most && t.size < mostBytes {
		return nil
	}
	return t.put()
}

// put puts the records of the list whose blobs exist into the new index.
func (t *taking) put() error {
	var put []store.Record
	err := t.update(t.ctx, func(tx *bbolt.Tx) error {
		put = put[:0]
		for _, record := range t.list {
			if t.taken[record.Ref] >= record.Revision || slices.ContainsFunc(record.Needs, t.isMissing) {
				continue
			}
			t.taken[record.Ref] = record.Revision
			was, _ := get(tx, record.Ref)
			var err error
			if record.Revision, err = tx.Bucket(needsBucket).NextSequence(); err != nil {
				return err
			}
			if err := errors.Join(remove(tx, was), insert(tx, record)); err != nil {
				return err
			}
			if was.Revision == 0 {
				put = append(put, record)
			}
		}
		return nil
	})
	for _, record := range put {
		t.Kept[record.Kind]++
	}
	t.list, t.size = nil, 0
	return err
}

func (t *taking) isMissing(digest modproxy.Digest) bool {
	_, err := lstatFile(t.blobPath(digest))
	return err != nil
}

// Finish replaces the old index with the new one, and returns the path of the old one in the quarantine. A crash leaves
// one of the two indexes in place.
func (r *Renewal) Finish() (aside string, err error) {
	if err := r.db.Sync(); err != nil {
		return "", err
	}
	r.db.NoSync = false
	aside, err = r.setAside(r.old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := r.disk.Rename(r.index, r.old); err != nil {
		return aside, err
	}
	r.index = r.old
	return aside, r.writeLayout()
}

// Close closes the directory, and removes the new index unless Finish has succeeded.
func (r *Renewal) Close() error {
	var errs []error
	if r.db != nil {
		errs = append(errs, r.Directory.Close())
	}
	if r.file != nil {
		r.file.Close()
	}
	if err := os.Remove(r.path(tempName, newIndexName)); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
