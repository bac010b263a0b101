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
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockTimeout is how long opening waits for another process that has the index.
const lockTimeout = 3 * time.Second

// remedy is what to do about an index that is refused.
const remedy = `"modproxy rebuild" makes it anew from the packages and the ledger; or put its backup back`

// indexError is an error of an index that is not to be used.
type indexError struct {
	name    string
	problem error // what it is or does, such as "is missing"
}

func (e *indexError) Error() string {
	return fmt.Sprintf("%s: the index %v: %s", e.name, e.problem, remedy)
}
func (e *indexError) Unwrap() error { return e.problem }

func (d *Directory) refuse(format string, args ...any) error {
	return &indexError{d.index, fmt.Errorf(format, args...)}
}

// openIndex opens the index, or makes one where nothing is kept yet.
func (d *Directory) openIndex() error {
	if err := d.checkIndex(); errors.Is(err, fs.ErrNotExist) {
		if err := d.newIndex(); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return d.openBolt(&bbolt.Options{ReadOnly: d.readOnly != nil})
}

// newIndex makes an index unless something is kept that would have been in the old one.
func (d *Directory) newIndex() error {
	kept, err := d.hasBlobs()
	if err != nil {
		return err
	}
	known, err := d.readLayout()
	switch {
	case err != nil:
		return err
	case kept:
		return d.refuse("is missing, but packages are kept beside it")
	case known:
		return d.refuse("is missing")
	case d.readOnly != nil:
		return fmt.Errorf("%s: %w, and nothing was ever kept there", d.dir, syscall.EROFS)
	}
	temp, err := d.makeIndex()
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	// Not in place of an index that another process makes meanwhile.
	if err := os.Link(temp, d.index); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.disk.FlushDir(d.dir)
}

// makeIndex returns the name of a temporary file, which is an index without records.
func (d *Directory) makeIndex() (temp string, err error) {
	temp, err = d.disk.WriteTemp(d.path(tempName), tempBase, func(*os.File) error { return nil })
	if err != nil {
		return "", err
	}
	db, err := bbolt.Open(temp, 0o600, &bbolt.Options{Timeout: lockTimeout})
	if err == nil {
		err = errors.Join(db.Update(makeBuckets), db.Close())
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(temp))
	}
	return temp, nil
}

func (d *Directory) openBolt(options *bbolt.Options) (err error) {
	var db *bbolt.DB
	var file *os.File
	options.Timeout = lockTimeout
	options.OpenFile = func(name string, flag int, mode fs.FileMode) (f *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	defer func() {
		switch {
		case err == nil:
			d.db, d.commit = db, db.Update
		case db != nil:
			db.Close()
		case file != nil:
			file.Close() // the lock stays where it was mapped already, until the process ends
		}
	}()
	defer contain(func(p any) { err = d.refuse("is damaged: %v", p) })()
	db, err = bbolt.Open(d.index, 0o600, options)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%s: %w", d.index, errHeld)
	case err != nil:
		return d.refuse("cannot be opened: %w", err)
	}
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Bucket(needsBucket) == nil || tx.Bucket(usesBucket) == nil {
			return d.refuse("is not one of modproxy")
		}
		return nil
	})
}

var errHeld = errors.New("another modproxy holds it: end that one, or use another data directory")

// view runs a transaction that reads. Damage that bbolt cannot bear is an error.
func (d *Directory) view(f func(*bbolt.Tx) error) error {
	done, err := d.use()
	if err != nil {
		return err
	}
	defer done()
	return d.transact(d.db.View, f)
}

// update runs a transaction that changes the index. It is called after change, with
// d.writing held. Transactions are not batched: bbolt commits a batch in a goroutine of
// its own, where a panic cannot be contained.
func (d *Directory) update(f func(*bbolt.Tx) error) error {
	err := d.transact(d.commit, f)
	if errors.Is(err, syscall.EIO) { // of a write or of a flush, bbolt does not say
		return d.health.fail(fmt.Errorf("%s: %w", d.index, err))
	}
	d.health.note(err)
	return err
}

func (d *Directory) transact(run func(func(*bbolt.Tx) error) error, f func(*bbolt.Tx) error) (err error) {
	defer contain(func(p any) { err = d.refuse("is damaged: %v", p) })()
	return run(f)
}

// contain is to be deferred: what it returns calls instead for a panic. bbolt panics
// about pages that it cannot make sense of, and reads beyond its mapping when a page
// says so, which without this would be the end of the process; so would be an error of
// the disk while a page is read. Both hold for the calling goroutine.
func contain(instead func(p any)) (deferred func()) {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			instead(p)
		}
	}
}

// The head of a bbolt file: two pages with a meta each, of which the one with the
// higher transaction counts (internal/common/meta.go of bbolt).
const (
	metaOffset  = 16 // of the meta in its page
	metaSize    = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2
)

type meta struct {
	pageSize, pages, transaction uint64
}

// parseMeta returns false for what is no meta, or a damaged one.
func parseMeta(b []byte) (meta, bool) {
	order := binary.NativeEndian
	h := fnv.New64a()
	h.Write(b[:metaSize-8])
	ok := order.Uint32(b) == metaMagic && order.Uint32(b[4:]) == metaVersion && order.Uint64(b[metaSize-8:]) == h.Sum64()
	return meta{uint64(order.Uint32(b[8:])), order.Uint64(b[40:]), order.Uint64(b[48:])}, ok
}

// checkIndex refuses an index that is cut short, which bbolt would map and then die of.
func (d *Directory) checkIndex() error {
	f, err := os.Open(d.index)
	if err != nil {
		return err
	}
	defer f.Close()
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
		return d.refuse("is empty")
	case !found:
		return d.refuse("is damaged or not a bbolt file")
	case best.pageSize == 0 || best.pages > size/best.pageSize:
		return d.refuse("is cut short: it has %d bytes, and should have %d pages of %d", size, best.pages, best.pageSize)
	}
	return nil
}
