package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// Quarantine implements [cache.Blobs].
func (s *Store) Quarantine(d modproxy.Digest) error {
	done, err := s.change()
	if err != nil {
		return err
	}
	defer done()
	_, err = s.setAside(s.blobPath(d))
	return err
}

// Quarantined is what was set aside longer than age ago; all of it, whatever time it
// is now, when age is zero. With remove it is removed.
func (s *Store) Quarantined(age time.Duration, remove bool) (all cache.Removed, err error) {
	done, err := s.use()
	if err != nil {
		return all, err
	}
	defer done()
	entries, err := os.ReadDir(s.path(quarantineName))
	if err != nil {
		return all, err
	}
	root, err := os.OpenRoot(s.dir) // nothing beyond it is removed, whatever becomes of the directories in it
	if err != nil {
		return all, err
	}
	defer root.Close()
	var errs []error
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && age > 0 && time.Since(movedAt(info)) < age {
			continue
		}
		if err == nil && remove {
			err = root.RemoveAll(filepath.Join(quarantineName, entry.Name()))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all.Packages++
		all.Bytes += info.Size()
	}
	return all, errors.Join(errs...)
}
