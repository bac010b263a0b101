package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/modproxy/modproxy"
)

// Quarantine implements [cache.Blobs].
func (s *Store) Quarantine(d modproxy.Digest) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	name := s.blobPath(d)
	s.mu.Lock() // nobody else takes the name
	defer s.mu.Unlock()
	aside := ""
	for n := 1; ; n++ {
		aside = s.path(quarantineName, fmt.Sprintf("%s.%d", d, n))
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
	}
	if err := os.Rename(name, aside); err != nil {
		return err
	}
	return errors.Join(s.flushDir(filepath.Dir(aside)), s.flushDir(filepath.Dir(name)))
}
