package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// A sidecar has the same bytes as the record in the index, under the SHA-256 of
// its key. It is written before the record: an index that has lost one takes it
// from there.

const sidecarSuffix = ".meta"

func sidecarName(key []byte) string {
	name := sha256.Sum256(key)
	return hex.EncodeToString(name[:])
}

func (s *Store) sidecarPath(name string) string {
	return s.path(packagesName, name[:2], name+sidecarSuffix)
}

func (s *Store) writeSidecar(name string, value []byte) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	if err := s.health.writable(); err != nil {
		return err
	}
	_, err = s.fan(packagesName, name[:2])
	if err == nil {
		err = s.publish(s.sidecarPath(name), 0o600, value)
	}
	s.health.note(err)
	return err
}

// maxSidecar bounds a sidecar, in bytes.
const maxSidecar = 64 << 10

// readSidecar reads the sidecar of that name; [fs.ErrNotExist] when there is none.
func (s *Store) readSidecar(name string) (value []byte, kept cache.Kept, err error) {
	path := s.sidecarPath(name)
	if _, err := lstatFile(path); errors.Is(err, cache.ErrDamaged) {
		return nil, kept, fmt.Errorf("%s: %w: it is not a plain file", path, errDamaged)
	} else if err != nil {
		return nil, kept, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, kept, err
	}
	defer f.Close()
	if value, err = io.ReadAll(io.LimitReader(f, maxSidecar)); err != nil {
		return nil, kept, err
	}
	kept, err = unsealPackage(value)
	if err == nil && sidecarName(packageKey(kept.Module, kept.Version)) != name {
		err = errDamaged
	}
	if err != nil {
		return nil, cache.Kept{}, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return value, kept, nil
}

// mend puts the record back that its sidecar has. problem is what is wrong with
// the one in the index, and stays the error when the sidecar does not help. It is
// called with the key's lock held.
func (s *Store) mend(key []byte, problem error) (cache.PackageRecord, error) {
	value, kept, err := s.readSidecar(sidecarName(key))
	if err != nil {
		return cache.PackageRecord{}, problem
	}
	err = s.update(func(tx *bbolt.Tx) error { return putNew(tx, key, value) })
	if err != nil && errors.Is(problem, fs.ErrNotExist) && s.health.writable() != nil {
		return cache.PackageRecord{}, problem // it was never answered with, and may not last
	}
	if err == nil {
		s.mended.Add(1)
	}
	return kept.Record, nil
}

// Mended is how many records of packages were damaged or missing in the index, and
// taken from beside it, since Open.
func (s *Store) Mended() int { return int(s.mended.Load()) }

// sidecars yields the names of all sidecars.
func (s *Store) sidecars(yield func(name string, err error) bool) {
	for entry, err := range s.entries(packagesName) {
		if err != nil {
			yield("", err)
			return
		}
		name, ok := strings.CutSuffix(entry.Name(), sidecarSuffix)
		if _, err := modproxy.ParseDigest(name); !ok || err != nil {
			continue
		}
		if !yield(name, nil) {
			return
		}
	}
}

// reconcile puts those records into the index that only have a sidecar, as after
// a crash between the two. The index should have as many as packages says.
func (s *Store) reconcile(packages int) error {
	n := 0
	for _, err := range s.sidecars {
		if err != nil {
			return err
		}
		n++
	}
	if n <= packages {
		return nil
	}
	recorded, err := s.recorded()
	if err != nil {
		return err
	}
	for name, err := range s.sidecars {
		if err != nil {
			return err
		}
		if recorded[name] {
			continue
		}
		if _, kept, err := s.readSidecar(name); err == nil {
			if _, err := s.Package(kept.Module, kept.Version); err != nil {
				return err
			}
		}
	}
	return nil
}

// recorded is the names of the sidecars of all records in the index.
func (s *Store) recorded() (map[string]bool, error) {
	names := map[string]bool{}
	err := s.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(packagesBucket).ForEach(func(k, _ []byte) error {
			names[sidecarName(k)] = true
			return nil
		})
	})
	return names, err
}

// setAside moves a file that is damaged to the quarantine.
func (s *Store) setAside(path string) (aside string, err error) {
	// Both directories are opened first: what could not be flushed is not moved.
	to, err := os.Open(s.path(quarantineName))
	if err != nil {
		return "", err
	}
	defer to.Close()
	from, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer from.Close()
	s.mu.Lock() // nobody else takes the name
	defer s.mu.Unlock()
	for n := 1; ; n++ {
		aside = s.path(quarantineName, fmt.Sprintf("%s.%d", filepath.Base(path), n))
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
	}
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	return aside, errors.Join(s.flush(to), s.flush(from))
}
