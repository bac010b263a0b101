package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/filelock"
	"github.com/modproxy/modproxy/store"
)

// Renewal is a directory with a new index that is not in its place yet.
type Renewal struct {
	*Directory
	Problem string // what is wrong with the old index; empty: modproxy could open it
	Kept    int    // records of the old index that are in the new one

	temp    string
	release func() error // lets go of the old index
}

// Renew opens a directory with a new index beside the old one, whatever that is. The new
// one has those records of the old one that need no blobs, as far as bbolt can read them.
// The others can be made from the blobs. [Renewal.Finish] puts it in the old one's place.
// The caller closes it; before Finish that leaves the old index as it is.
//
// No process may have the directory open. One that does is an error as long as it holds
// the index.
func Renew(ctx context.Context, dir string) (*Renewal, error) {
	old := newDirectory(dir)
	old.readOnly = errors.New("the old index") // of which nothing is changed
	r := &Renewal{Directory: newDirectory(dir), release: func() error { return nil }}
	err := r.prepare()
	if errors.Is(err, errLayout) {
		r.Problem = err.Error()
		if _, err = r.setAside(r.path(layoutName)); err == nil {
			err = r.prepare()
		}
	}
	if err == nil {
		err = r.openOld(old)
	}
	if err == nil {
		err = r.begin()
	}
	if err == nil && old.db != nil {
		err = r.takeOver(ctx, old)
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild of %s: %w", dir, errors.Join(err, r.Close()))
	}
	return r, nil
}

// openOld opens the old index, or locks at least the file.
func (r *Renewal) openOld(old *Directory) error {
	err := old.checkIndex()
	if err == nil {
		err = old.openBolt(&bbolt.Options{ReadOnly: true})
	}
	var refused *indexError
	switch {
	case err == nil:
		r.release = old.Close
		return nil
	case errors.Is(err, fs.ErrNotExist):
		r.Problem = "the index is missing"
		return nil
	case errors.As(err, &refused):
		r.Problem = fmt.Sprintf("the index %v", refused.problem)
	case errors.Is(err, errHeld), errors.Is(err, fs.ErrPermission):
		return err
	default: // it is no file, or on a part of the disk that is lost
		r.Problem = fmt.Sprintf("the index cannot be opened: %v", err)
	}
	f, err := durable.OpenRegular(old.index, os.O_RDONLY)
	if err != nil {
		return nil // there is nothing that could be locked
	}
	r.release = f.Close
	if err := filelock.TryLock(f); errors.Is(err, filelock.ErrLocked) {
		return fmt.Errorf("%s: %w", old.index, errHeld)
	}
	return nil
}

// begin makes the new index. It is flushed once, at the end: until then nothing depends
// on it.
func (r *Renewal) begin() (err error) {
	if err := durable.RemoveTemps(r.path(tempName), tempBase); err != nil {
		return err
	}
	if r.temp, err = r.makeIndex(); err != nil {
		return err
	}
	r.index = r.temp
	return r.openBolt(&bbolt.Options{NoSync: true})
}

// takeOver puts the records of the old index that need no blobs into the new one.
func (r *Renewal) takeOver(ctx context.Context, old *Directory) error {
	kinds, err := records{old}.kinds()
	if err != nil {
		r.Problem = err.Error()
	}
	for _, kind := range kinds {
		for record, err := range old.Records().List(ctx, kind, "") {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, store.ErrDamaged), len(record.Needs) > 0:
				continue
			case err != nil: // and the records before it count
				r.Problem = err.Error()
				continue
			}
			record.Revision = 0
			if _, err := r.Records().Put(ctx, record); err != nil {
				return err
			}
			r.Kept++
		}
	}
	return nil
}

// Finish puts the new index in the place of the old one, which it sets aside and returns
// the name of. A crash leaves one of the two.
func (r *Renewal) Finish() (aside string, err error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.db.Sync(); err != nil {
		return "", err
	}
	name := r.path(indexName)
	switch _, err := os.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", err
	default:
		if aside, err = r.setAside(name); err != nil {
			return "", err
		}
	}
	if err := r.disk.Rename(r.temp, name); err != nil {
		return aside, err
	}
	r.index, r.temp = name, ""
	return aside, r.writeLayout()
}

// Close closes the directory, and forgets the new index unless Finish has put it in its
// place.
func (r *Renewal) Close() error {
	errs := []error{r.release()}
	r.release = func() error { return nil }
	if r.db != nil {
		errs = append(errs, r.Directory.Close())
	}
	if r.temp != "" {
		errs = append(errs, os.Remove(r.temp))
		r.temp = ""
	}
	return errors.Join(errs...)
}
