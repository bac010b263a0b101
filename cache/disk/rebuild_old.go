package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
)

// oldIndex is what was found in the index that is to be replaced.
type oldIndex struct {
	file     *os.File // nil: there is none, or it is lost
	lost     bool     // what is there cannot be opened
	about    aboutIndex
	packages map[string]oldPackage // by the names of their sidecars
	versions map[modproxy.Module]oldVersions
}

type oldPackage struct {
	carved
	sum  modproxy.Sum
	time time.Time
}

type oldVersions struct {
	carved
	asked time.Time
}

// readOld reads the index that is there; release lets go of it. Of records that
// were replaced the newest counts.
func (r *rebuild) readOld() (release func(), err error) {
	release = func() {}
	f, err := os.OpenFile(r.path(indexName), os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.out.Problem = "the index is missing"
		return release, nil
	case err != nil && passing(err):
		return release, err
	case err != nil: // it is no file, or on a part of the disk that is lost
		r.out.Problem, r.old.lost = fmt.Sprintf("the index cannot be opened: %v", err), true
		return release, nil
	}
	r.old.file, release = f, func() { f.Close() }
	if err := lockIndex(f); err != nil {
		return release, err
	}
	info, err := f.Stat()
	if err != nil {
		return release, err
	}
	if err := checkMeta(f); err != nil {
		r.out.Problem = "the index " + err.Error()
	}
	if err := carve(f, info.Size(), r.found); err != nil { // what comes before it counts
		r.out.Problem = fmt.Sprintf("the index cannot be read: %v", err)
	}
	is := r.layout.identity
	switch {
	case is.Directory != "" && r.old.about.Directory != "" && is.Directory != r.old.about.Directory:
		r.out.Problem = "the index is that of another directory, of which nothing was taken"
		clear(r.old.packages)
		clear(r.old.versions)
		r.old.about = aboutIndex{}
	case r.out.Problem == "" && r.old.about.Generation < is.Generation:
		r.out.Problem = fmt.Sprintf("the index is an older copy (generation %d of %d)", r.old.about.Generation, is.Generation)
	}
	return release, nil
}

// passing tells whether err says nothing about a file, but about who opens it.
func passing(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// found looks at a sealed record.
func (r *rebuild) found(at carved, sealed []byte) {
	var h struct { // what of it counts
		about
		identity
		Sum     modproxy.Sum `json:"sum"`
		Fetched time.Time    `json:"fetched"`
		Asked   time.Time    `json:"asked"`
	}
	if _, err := unseal(sealed, &h); err != nil {
		return
	}
	switch m := h.module(); {
	case h.Directory != "":
		var a aboutIndex
		if _, err := unseal(sealed, &a); err == nil && a.Generation >= r.old.about.Generation {
			r.old.about = a
		}
	case h.Version != "":
		name := sidecarName(packageKey(m, h.Version))
		if old, ok := r.old.packages[name]; !ok || !h.Fetched.Before(old.time) {
			r.old.packages[name] = oldPackage{at, h.Sum, h.Fetched}
		}
	case m != (modproxy.Module{}):
		if old, ok := r.old.versions[m]; !ok || h.Asked.After(old.asked) {
			r.old.versions[m] = oldVersions{at, h.Asked}
		}
	}
}

// writer writes a new index into a temporary file.
type writer struct {
	s       *Store
	name    string
	db      *bbolt.DB
	pending []pair
}

type pair struct{ bucket, key, value []byte }

func (s *Store) newWriter() (*writer, error) {
	f, err := os.CreateTemp(s.path(tempName), tempPattern)
	if err != nil {
		return nil, err
	}
	w := &writer{s: s, name: f.Name()}
	if err = f.Close(); err == nil {
		// Flushed once, at the end: until then nothing depends on it.
		w.db, err = bbolt.Open(w.name, 0o600, &bbolt.Options{Timeout: lockTimeout, NoSync: true})
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(w.name))
	}
	return w, nil
}

func (w *writer) put(bucket, key, value []byte) error {
	w.pending = append(w.pending, pair{bucket, key, value})
	if len(w.pending) < 5000 {
		return nil
	}
	return w.commit()
}

func (w *writer) commit() error {
	err := w.db.Update(func(tx *bbolt.Tx) error {
		for _, p := range w.pending {
			b, err := tx.CreateBucketIfNotExists(p.bucket)
			if err != nil {
				return err
			}
			if err := b.Put(p.key, p.value); err != nil {
				return err
			}
		}
		return nil
	})
	w.pending = nil
	return err
}

// finish is the name of the file, which is durable.
func (w *writer) finish(a aboutIndex) (string, error) {
	if err := w.commit(); err != nil {
		return "", err
	}
	err := w.db.Update(func(tx *bbolt.Tx) error { return errors.Join(makeBuckets(tx), a.put(tx)) })
	if err := errors.Join(err, w.db.Sync(), w.db.Close()); err != nil {
		return "", err
	}
	w.db = nil
	return w.name, nil
}

// discard removes the file unless it was renamed.
func (w *writer) discard() error {
	var err error
	if w.db != nil {
		err = w.db.Close()
	}
	if gone := os.Remove(w.name); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
