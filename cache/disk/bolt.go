package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// openIndex opens index.db, or makes one where nothing is kept yet.
func (s *Store) openIndex() error {
	name := s.path(indexName)
	f, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.readOnly != nil:
		return s.keepsNothing()
	case errors.Is(err, fs.ErrNotExist):
		if kept, err := s.keepsPackages(); err != nil {
			return err
		} else if kept {
			return s.refuse("is missing, but packages are kept beside it")
		} else if s.layout.Directory != "" {
			return s.refuse("is missing")
		}
		if err := s.makeIndex(); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		err := checkMeta(f)
		f.Close()
		if err != nil {
			return s.refuse("%w", err)
		}
	}
	return s.openBolt()
}

func errHeld(name string) error {
	return fmt.Errorf("%s: another modproxy holds it: end that one, or use another data directory", name)
}

func (s *Store) openBolt() (err error) {
	var db *bbolt.DB
	var file *os.File
	defer func() {
		switch {
		case err == nil:
			s.db = db
		case db != nil:
			db.Close()
		case file != nil:
			file.Close() // the lock stays where it was mapped already, until the process ends
		}
	}()
	defer contain(func(p any) { err = s.refuse("is damaged: %v", p) })()
	db, err = bbolt.Open(s.path(indexName), 0o600, &bbolt.Options{
		Timeout: lockTimeout,
		OpenFile: func(name string, flag int, mode fs.FileMode) (f *os.File, err error) {
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
		ReadOnly: s.readOnly != nil,
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return errHeld(s.path(indexName))
	case err != nil:
		return s.refuse("cannot be opened: %w", err)
	}
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Bucket(versionsBucket) == nil || tx.Bucket(packagesBucket) == nil {
			return s.refuse("is not one of modproxy")
		}
		return nil
	})
}

// makeIndex makes an index without records. It appears whole or not at all, and
// not in place of another one that appears meanwhile.
func (s *Store) makeIndex() error {
	f, err := os.CreateTemp(s.path(tempName), tempPattern)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{Timeout: lockTimeout})
	if err != nil {
		return err
	}
	err = db.Update(makeBuckets)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), s.path(indexName)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.flushDir(s.dir)
}

func makeBuckets(tx *bbolt.Tx) error {
	for _, name := range [][]byte{versionsBucket, packagesBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// view and update run a transaction; damage that bbolt cannot bear is an error.
// Updates are not batched: bbolt commits a batch in a goroutine of its own, where
// nobody can recover.
func (s *Store) view(f func(*bbolt.Tx) error) error { return s.transact(s.db.View, f) }

func (s *Store) update(f func(*bbolt.Tx) error) error {
	if err := s.health.writable(); err != nil {
		return err
	}
	s.wrote.Store(true)
	err := s.transact(s.db.Update, f)
	if errors.Is(err, syscall.EIO) { // of a write or of a flush, bbolt does not say
		return s.health.fail(fmt.Errorf("%s: %w", s.path(indexName), err))
	}
	s.health.note(err)
	return err
}

func (s *Store) transact(run func(func(*bbolt.Tx) error) error, f func(*bbolt.Tx) error) (err error) {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	defer contain(func(p any) { err = fmt.Errorf("%s: %w: %v: "+remedy, s.path(indexName), errDamaged, p) })()
	return run(f)
}

// contain is to be deferred: what it returns calls instead for a panic. bbolt
// panics about pages that it cannot make sense of, and reads beyond its mapping
// when a page says so, which without this would be the end of the process; so
// would be an error of the disk while a page is read. Both hold for the calling
// goroutine.
func contain(instead func(p any)) (deferred func()) {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			instead(p)
		}
	}
}

// The head of a bbolt file: two pages with a meta each, of which the one with
// the higher transaction counts (internal/common/meta.go of bbolt).
const (
	metaOffset  = 16 // of the meta in its page
	metaSize    = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2
)

type meta struct {
	pageSize, pages, transaction uint64
}

// parseMeta reads a meta; false when it is none, or damaged.
func parseMeta(b []byte) (meta, bool) {
	order := binary.NativeEndian
	h := fnv.New64a()
	h.Write(b[:metaSize-8])
	ok := order.Uint32(b) == metaMagic && order.Uint32(b[4:]) == metaVersion && order.Uint64(b[metaSize-8:]) == h.Sum64()
	return meta{uint64(order.Uint32(b[8:])), order.Uint64(b[40:]), order.Uint64(b[48:])}, ok
}

// checkMeta reports a file that is cut short, which bbolt would map and then die
// of.
func checkMeta(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var best meta
	found := false
	// The second meta is a page behind the first, whatever the size of a page.
	for offset := int64(0); offset <= 64<<10; offset = max(512, offset*2) {
		var b [metaSize]byte
		if _, err := f.ReadAt(b[:], offset+metaOffset); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if m, ok := parseMeta(b[:]); ok && (!found || m.transaction > best.transaction) {
			best, found = m, true
		}
	}
	size := uint64(info.Size())
	switch {
	case size == 0:
		return errors.New("is empty")
	case !found:
		return errors.New("is damaged or not a bbolt file")
	case best.pageSize == 0 || best.pages > size/best.pageSize:
		return fmt.Errorf("is cut short: it has %d bytes, and should have %d pages of %d", size, best.pages, best.pageSize)
	}
	return nil
}
