package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/store"
)

// Renewal is a directory with a new index that is not in its place yet.
type Renewal struct {
	*Directory
	Problem string             // what is wrong with the old index; empty: modproxy could open it
	Kept    map[store.Kind]int // records of the old index that are in the new one

	old *Directory
}

// newIndexName is where a new index is until Finish.
const newIndexName = tempBase + ".index.tmp"

// Renew opens a directory with a new index beside the old one, whatever that is. The new one has those records
// of the old one whose blobs are there, as far as bbolt can read them. [Renewal.Finish] puts it in the old one's
// place. No process may have the directory open; one that has is an error as long as the index can be opened.
func Renew(ctx context.Context, dir string) (*Renewal, error) {
	r := &Renewal{Directory: newDirectory(dir), old: newDirectory(dir), Kept: map[store.Kind]int{}}
	r.old.readOnly = errors.New("the old index is only read")
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
		// It is flushed by Finish: until then nothing depends on it.
		r.index = r.path(tempName, newIndexName)
		err = r.openBolt(bbolt.Options{NoSync: true}, true)
	}
	if err == nil && r.old.db != nil {
		err = r.takeOver(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild of %s: %w", dir, errors.Join(err, r.Close()))
	}
	return r, nil
}

func (r *Renewal) openOld() error {
	r.old.layout = r.layout
	err := r.old.openIndex()
	var refused *indexError
	switch {
	case err == nil, errors.Is(err, errHeld), errors.Is(err, fs.ErrPermission):
		return err
	case errors.As(err, &refused):
		r.Problem = fmt.Sprintf("the index %v", refused.problem)
	default: // it is no file, or on a part of the disk that is lost
		r.Problem = fmt.Sprintf("the index cannot be opened: %v", err)
	}
	return nil
}

// takeOver puts the records of the old index whose blobs are there into the new one.
func (r *Renewal) takeOver(ctx context.Context) error {
	kinds, err := records{r.old}.kinds(ctx)
	if err != nil {
		r.Problem = err.Error()
	}
	for _, kind := range kinds {
		for record, err := range r.old.Records().List(ctx, kind, "") {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, store.ErrDamaged):
				continue
			case err != nil: // those before it count
				r.Problem = err.Error()
				continue
			}
			record.Revision = 0
			if _, err := r.Records().Put(ctx, record); err == nil {
				r.Kept[kind]++
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Finish puts the new index in the place of the old one, and returns where the old one was set aside. A crash
// leaves one of the two.
func (r *Renewal) Finish() (aside string, err error) {
	if err := r.db.Sync(); err != nil {
		return "", err
	}
	r.db.NoSync = false
	aside, err = r.setAside(r.old.index)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := r.disk.Rename(r.index, r.old.index); err != nil {
		return aside, err
	}
	r.index = r.old.index
	return aside, r.writeLayout()
}

// Close closes the directory, and removes the new index unless Finish has put it in its place.
func (r *Renewal) Close() error {
	var errs []error
	for _, d := range []*Directory{r.Directory, r.old} {
		if d.db != nil {
			errs = append(errs, d.Close())
		}
	}
	if err := os.Remove(r.path(tempName, newIndexName)); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
