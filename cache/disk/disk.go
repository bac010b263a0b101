// Package disk keeps the index and the blobs of a cache in a directory.
//
// Invariant: a name of the layout has all of its bytes, durably, or is not
// there. Whatever is kept is written to a temporary file on the same file
// system, flushed, renamed, and both directories are flushed, before anything
// refers to it; blob, then sidecar, then index. A flush that fails is an error
// of what was to be kept, and nothing is made of it.
//
// The layout, below the directory:
//
//	layout.json                       the version of the layout, and which index belongs here
//	index.db                          the index, in bbolt
//	blobs/v1/sha256/ab/<digest>       packages, read-only
//	packages/v1/ab/<name>.meta        a copy of each package record, from which the index can be rebuilt
//	quarantine/<name>.<number>        what was damaged: blobs, copies of records, indexes
//	tmp/                              what is being written; emptied by Open
//
// Names are digests: no name has a part of a request in it. The index is not
// trusted: every record has a checksum of its own, which bbolt does not give,
// and says what it is about; one that is damaged is taken from its copy. That the
// index is the one that was there last is known by what layout.json says of it.
// Blobs are not trusted either, but checked by who reads them.
//
// One process at a time has a directory open, which the lock on index.db sees
// to.
package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/cache"
)

const (
	layoutVersion = 1
	lockTimeout   = 3 * time.Second

	layoutName     = "layout.json"
	indexName      = "index.db"
	quarantineName = "quarantine"
	tempName       = "tmp"
	tempPattern    = "modproxy-*.tmp"
)

var (
	blobsName    = filepath.Join("blobs", "v1", "sha256")
	packagesName = filepath.Join("packages", "v1")
)

// Store is a directory. It is safe for concurrent use.
type Store struct {
	dir  string
	db   *bbolt.DB
	sync func(*os.File) error // (*os.File).Sync, but in tests

	readOnly error // why nothing may be changed; nil if it may
	health   health
	wrote    atomic.Bool  // something, since begin
	mended   atomic.Int64 // records

	open   sync.RWMutex // held for reading while the directory is used
	closed bool

	mu     sync.Mutex // guards what follows, the layout file, and names in quarantine
	layout layout
	fans   map[string]bool // directories that are durably there

	writing [64]sync.Mutex // package records, by their key
}

var (
	_ cache.Index = (*Store)(nil)
	_ cache.Blobs = (*Store)(nil)
	_ cache.Uses  = (*Store)(nil)
)

// Open opens the directory, which it makes if it must. The caller closes it.
//
// It refuses a directory that another process has open, one of a newer layout,
// and one whose index is missing, empty, cut short or damaged, an older copy, or
// that of another directory: it would fetch again what is kept, and offline have
// nothing. The error says what to do, which is [Rebuild].
//
// Records that a crash left beside the index, and not in it, are put into it.
func Open(dir string) (*Store, error) {
	s := newStore(dir)
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if err := s.openIndex(); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		s.db.Close()
		return nil, err
	}
	return s, nil
}

func newStore(dir string) *Store {
	return &Store{dir: dir, sync: (*os.File).Sync, fans: map[string]bool{}}
}

// prepare does what is right to do although another process may be at work.
func (s *Store) prepare() error {
	if err := s.readLayout(); err != nil {
		return err
	}
	for _, name := range []string{blobsName, packagesName, quarantineName, tempName} {
		if err := s.makeDir(s.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// begin does what must be left to the process that holds the lock.
func (s *Store) begin() error {
	if err := s.cleanTemp(); err != nil {
		return err
	}
	if err := s.readLayout(); err != nil {
		return err
	}
	packages, err := s.identify()
	if err != nil {
		return err
	}
	if err := s.reconcile(packages); err != nil {
		return err
	}
	s.wrote.Store(false)
	return nil
}

// Close closes the directory. Blobs that are open stay readable.
func (s *Store) Close() error {
	if s.wrote.Load() {
		s.age()
	}
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.db.Close()
}

// use is called before the directory is used; done is called afterwards.
func (s *Store) use() (done func(), err error) {
	s.open.RLock()
	if s.closed {
		s.open.RUnlock()
		return nil, fmt.Errorf("%s: %w", s.dir, fs.ErrClosed)
	}
	return s.open.RUnlock, nil
}

// change is use, of who changes something.
func (s *Store) change() (done func(), err error) {
	if s.readOnly != nil {
		return nil, s.readOnly
	}
	return s.use()
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// cleanTemp removes what a process that was killed left behind.
func (s *Store) cleanTemp() error {
	entries, err := os.ReadDir(s.path(tempName))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.dir) // nothing beyond it is removed
	if err != nil {
		return err
	}
	defer root.Close()
	for _, entry := range entries {
		ours, _ := filepath.Match(tempPattern, entry.Name()) // the pattern is a good one
		if !ours || !entry.Type().IsRegular() {
			continue
		}
		if err := root.Remove(filepath.Join(tempName, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// keepsPackages tells whether there is any blob or sidecar.
func (s *Store) keepsPackages() (bool, error) {
	for _, name := range []string{blobsName, packagesName} {
		fans, err := os.ReadDir(s.path(name))
		if err != nil {
			return false, err
		}
		for _, fan := range fans {
			entries, err := os.ReadDir(s.path(name, fan.Name()))
			if err != nil || len(entries) > 0 {
				return true, nil // what cannot be listed is not nothing
			}
		}
	}
	return false, nil
}
