package disk

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// The buckets. Their names carry the version of what is in them.
var (
	versionsBucket = []byte("v1/versions")
	packagesBucket = []byte("v1/packages")
)

// Versions implements [cache.Index].
func (s *Store) Versions(m modproxy.Module) (rec cache.VersionsRecord, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		value := tx.Bucket(versionsBucket).Get(moduleKey(m))
		if value == nil {
			return fs.ErrNotExist
		}
		rec, err = unsealVersions(value, m)
		return err
	})
	return rec, err
}

// PutVersions implements [cache.Index].
func (s *Store) PutVersions(m modproxy.Module, rec cache.VersionsRecord) error {
	value, err := sealVersions(m, rec)
	if err != nil {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error {
		return tx.Bucket(versionsBucket).Put(moduleKey(m), value)
	})
}

// Package implements [cache.Index]. A record that is damaged or missing in the
// index is taken from its sidecar.
func (s *Store) Package(m modproxy.Module, version string) (cache.PackageRecord, error) {
	key := packageKey(m, version)
	rec, err := s.packageOf(key)
	if !mendable(err) {
		return rec, err
	}
	if _, absent := os.Lstat(s.sidecarPath(sidecarName(key))); absent != nil {
		return rec, err
	}
	defer s.lock(key)()
	return s.mendedPackage(key)
}

func mendable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged)
}

// mendedPackage is called with the key's lock held.
func (s *Store) mendedPackage(key []byte) (cache.PackageRecord, error) {
	rec, err := s.packageOf(key)
	if mendable(err) {
		return s.mend(key, err)
	}
	return rec, err
}

// packageOf reads the record in the index.
func (s *Store) packageOf(key []byte) (rec cache.PackageRecord, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		value := tx.Bucket(packagesBucket).Get(key)
		if value == nil {
			return fs.ErrNotExist
		}
		kept, err := readPackage(key, value)
		rec = kept.Record
		return err
	})
	return rec, err
}

// lock is held while a package record is read in order to be changed.
func (s *Store) lock(key []byte) (unlock func()) {
	name := sha256.Sum256(key)
	mu := &s.writing[int(name[0])%len(s.writing)]
	mu.Lock()
	return mu.Unlock
}

// readPackage reads an entry of the packages bucket. Module and Version are what
// the key says, also when the value is damaged.
func readPackage(key, value []byte) (cache.Kept, error) {
	m, version, ok := parseKey(key)
	if !ok {
		return cache.Kept{}, errDamaged
	}
	kept, err := unsealPackage(value)
	if err == nil && (kept.Module != m || kept.Version != version) {
		err = errDamaged
	}
	if err != nil {
		return cache.Kept{Module: m, Version: version}, err
	}
	return kept, nil
}

// PutPackage implements [cache.Index]. The sidecar is written first.
func (s *Store) PutPackage(m modproxy.Module, version string, rec cache.PackageRecord) error {
	return s.putPackage(m, version, rec.Sum, rec)
}

// ReplacePackage replaces the record of a version, which has the Sum was, by one
// that may have another. A record of any other Sum stays, and the error is
// [modproxy.ErrChanged].
func (s *Store) ReplacePackage(m modproxy.Module, version string, was modproxy.Sum, rec cache.PackageRecord) error {
	return s.putPackage(m, version, was, rec)
}

// putPackage puts rec where there is no record, or one of the Sum was.
func (s *Store) putPackage(m modproxy.Module, version string, was modproxy.Sum, rec cache.PackageRecord) error {
	value, err := sealPackage(m, version, rec)
	if err != nil {
		return err
	}
	key := packageKey(m, version)
	defer s.lock(key)()
	switch old, err := s.mendedPackage(key); {
	case err == nil && old.Sum != was:
		return fmt.Errorf("%w: kept as %s, not %s", modproxy.ErrChanged, old.Sum, rec.Sum)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := s.writeSidecar(sidecarName(key), value); err != nil {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error { return putNew(tx, key, value) })
}

// Packages implements [cache.Index]. Who ranges over it may write.
func (s *Store) Packages(m modproxy.Module) iter.Seq2[cache.Kept, error] {
	return func(yield func(cache.Kept, error) bool) {
		for e, err := range s.each(packagesBucket, moduleKey(m)) {
			var kept cache.Kept
			if err == nil {
				kept, err = readPackage(e.key, e.value)
			}
			if errors.Is(err, errDamaged) && kept.Version != "" {
				kept.Record, err = s.Package(kept.Module, kept.Version)
			}
			if !yield(kept, err) {
				return
			}
		}
	}
}

type entry struct{ key, value []byte }

// each yields the entries of a bucket whose keys begin with prefix. It reads a
// batch at a time and yields between transactions. An error ends it.
func (s *Store) each(bucket, prefix []byte) iter.Seq2[entry, error] {
	const batch, batchBytes = 256, 4 << 20
	return func(yield func(entry, error) bool) {
		for from := prefix; ; {
			entries := make([]entry, 0, batch)
			next, size := []byte(nil), 0
			err := s.view(func(tx *bbolt.Tx) error {
				c := tx.Bucket(bucket).Cursor()
				for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
					if len(entries) == batch || size > batchBytes {
						next = bytes.Clone(k)
						return nil
					}
					size += len(v)
					entries = append(entries, entry{bytes.Clone(k), bytes.Clone(v)})
				}
				return nil
			})
			if err != nil {
				yield(entry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			from = next
		}
	}
}
