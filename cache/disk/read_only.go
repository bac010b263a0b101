package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"go.etcd.io/bbolt"
)

// OpenReadOnly opens a directory that cannot be written, or should not be, for
// reading: what is kept is there, and whatever would change something is an error
// that is [syscall.EROFS]. Many may have it open for reading, while nobody has it
// open to write. The caller closes it.
//
// It refuses what [Open] refuses, and a directory in which nothing was ever kept.
// What a crash left beside the index stays there: nobody was given it.
func OpenReadOnly(dir string) (*Store, error) {
	s := newStore(dir)
	s.readOnly = fmt.Errorf("%s: %w: what is kept is served; to keep more, restart modproxy with a directory that it can write",
		dir, syscall.EROFS)
	s.health.final = s.readOnly
	if err := s.readLayout(); err != nil {
		return nil, err
	}
	if err := s.openIndex(); err != nil {
		return nil, err
	}
	if err := s.view(s.belongs); err != nil {
		s.db.Close()
		return nil, err
	}
	return s, nil
}

// ReadOnly is why nothing can be changed; nil unless the store was opened for
// reading.
func (s *Store) ReadOnly() error { return s.readOnly }

// belongs holds the index to the layout.
func (s *Store) belongs(tx *bbolt.Tx) error {
	_, err := s.aboutIndex(tx)
	return err
}

// keepsNothing is why an index that is missing cannot be made.
func (s *Store) keepsNothing() error {
	kept, err := s.keepsPackages()
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case kept || s.layout.Directory != "":
		return s.refuse("is missing")
	}
	return fmt.Errorf("%s: %w, and nothing was ever kept there", s.dir, syscall.EROFS)
}
