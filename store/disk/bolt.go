package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/modproxy/modproxy/internal/boltfile"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/filelock"
)

// lockTimeout is how long opening waits for another process that has the index open.
const lockTimeout = 3 * time.Second

var errHeld = errors.New("another modproxy process has it open: stop that process, or use another data directory")

// indexError is the error for an index that must not be used.
type indexError struct {
	name    string
	problem error // predicate of the index, such as "is missing"
	remedy  string
}

const (
	remedyIndex   = `"modproxy rebuild" makes a new one from the packages and the ledger; or restore its backup`
	remedyRecords = `"modproxy verify --read-data --repair" restores the records of packages from the packages and the ledger`
)

func (e *indexError) Error() string {
	return fmt.Sprintf("%s: the index %v: %s", e.name, e.problem, e.remedy)
}
func (e *indexError) Unwrap() error { return e.problem }

func isIndexError(err error) bool { return errors.As(err, new(*indexError)) }

func (d *Directory) refuse(format string, args ...any) error {
	return &indexError{d.index, fmt.Errorf(format, args...), remedyIndex}
}

// openIndex opens the index. If the directory stores nothing yet, it creates the index.
func (d *Directory) openIndex(ctx context.Context) error {
	kept, err := d.lookAtIndex(ctx)
	if err != nil {
		return err
	}
	if err := d.openBolt(bbolt.Options{ReadOnly: d.readOnly != nil}, !kept); err != nil || kept {
		return err
	}
	return d.disk.FlushDir(d.dir)
}

// lookAtIndex refuses an index that must not be used. It reports whether the directory stores something. It changes nothing.
func (d *Directory) lookAtIndex(ctx context.Context) (kept bool, err error) {
	kept = d.layout > 0 || d.hasBlobs() // the layout is written after the index
	info, err := os.Stat(d.index)
	switch {
	case errors.Is(err, fs.ErrNotExist) && kept:
		return kept, d.refuse("is missing")
	case errors.Is(err, fs.ErrNotExist) && d.readOnly != nil:
		return kept, fmt.Errorf("%s: %w, and nothing was ever stored there", d.dir, syscall.EROFS)
	case err == nil && info.Size() == 0 && kept:
		return kept, d.refuse("is empty")
	case err == nil && info.Size() > 0:
		return kept, d.checkIndex(ctx, kept)
	}
	return kept, nil // without an index, one is created; bbolt reports other errors
}

// hasBlobs reports whether a blob is stored.
func (d *Directory) hasBlobs() bool {
	names, _ := fs.Glob(os.DirFS(d.dir), filepath.ToSlash(blobsName)+"/*/*") // the pattern is valid
	return len(names) > 0
}

// checkIndex refuses an index that bbolt must not open, or whose records are damaged or lost. If the directory stores
// nothing, the index may lack its buckets, because a process may have been killed before it created them.
func (d *Directory) checkIndex(ctx context.Context, kept bool) error {
	index, err := durable.OpenRegular(d.index, os.O_RDONLY)
	if errors.Is(err, durable.ErrNotRegular) {
		return d.refuse("is not a regular file")
	} else if err != nil {
		return err
	}
	defer index.Close()
	err = d.inspectFile(ctx, index)
	if !kept && errors.Is(err, errNoBuckets) {
		return nil
	}
	if err != nil && errors.Is(filelock.TryRLock(index), filelock.ErrLocked) { // another process may have written meanwhile
		return fmt.Errorf("%s: %w", d.index, errHeld)
	}
	if damage, ok := errors.AsType[*indexError](err); ok && d.tolerant && damage.remedy == remedyRecords {
		return nil
	}
	return err
}

// openBolt opens d.index, and creates the buckets if it is new.
func (d *Directory) openBolt(options bbolt.Options, isNew bool) error {
	options.Timeout, options.OpenFile = lockTimeout, d.openFile
	err := d.contain(func() (err error) {
		switch d.db, err = bbolt.Open(d.index, 0o600, &options); {
		case errors.Is(err, bolterrors.ErrTimeout):
			return fmt.Errorf("%s: %w", d.index, errHeld)
		case errors.As(err, new(*fs.PathError)):
			return err
		case err != nil:
			return d.refuse("is damaged: %w", err)
		}
		if d.commit = d.db.Update; isNew && d.readOnly == nil {
			if err := d.commit(makeBuckets); err != nil {
				return err
			}
		}
		return d.db.View(func(tx *bbolt.Tx) error {
			info, err := os.Stat(d.index)
			switch {
			case err != nil:
				return err
			case info.Size() < tx.Size():
				return d.refuse("is cut short: it has %d bytes, and should have %d", info.Size(), tx.Size())
			case tx.Bucket(needsBucket) == nil || tx.Bucket(usesBucket) == nil:
				return d.refuse("was not written by modproxy")
			}
			return nil
		})
	})
	if err != nil && d.db != nil {
		d.db.Close()
		d.db, d.file = nil, nil
	}
	return err
}

// view runs a read-only transaction.
func (d *Directory) view(ctx context.Context, f func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := d.contain(func() error { return d.db.View(f) })
	if errors.Is(err, boltfile.ErrDamaged) && !isIndexError(err) {
		err = d.health.note(d.refuse("is %w", err))
	}
	return err
}

// update is a change of the index that waits for its commit.
type update struct {
	change func(*bbolt.Tx) error // may be called several times
	done   bool
	err    error
}

// maxCommit is the maximum number of updates that are committed together.
const maxCommit = 256

// update runs a transaction that changes the index. Updates that wait during another commit are committed together,
// because flushing many takes a disk as long as flushing one. A failed update changes nothing and does not affect the
// others.
func (d *Directory) update(ctx context.Context, change func(*bbolt.Tx) error) error {
	done, err := d.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	u := &update{change: change}
	d.waiting.Lock()
	d.updates = append(d.updates, u)
	d.waiting.Unlock()
	d.writing.Lock()
	defer d.writing.Unlock()
	for !u.done {
		d.commitWaiting()
	}
	return u.err
}

// commitWaiting commits updates in the order of their arrival. The caller holds d.writing.
func (d *Directory) commitWaiting() {
	d.waiting.Lock()
	n := min(len(d.updates), maxCommit)
	list := slices.Clone(d.updates[:n])
	d.updates = slices.Delete(d.updates, 0, n)
	d.waiting.Unlock()
	for len(list) > 0 {
		var running int
		err := d.write(func(tx *bbolt.Tx) error {
			for running = range list {
				if err := list[running].change(tx); err != nil {
					return err
				}
			}
			running = len(list)
			return nil
		})
		if running < len(list) { // nothing is committed
			list[running].done, list[running].err = true, err
			list = slices.Delete(list, running, running+1)
			continue
		}
		for _, u := range list {
			u.done, u.err = true, err
		}
		return
	}
}

// write runs a transaction. The caller holds d.writing. A batch of bbolt is not used: bbolt would commit it in its own
// goroutine, where panics are not contained.
func (d *Directory) write(f func(*bbolt.Tx) error) error {
	if final, _ := d.health.get(); final != nil { // another write has failed meanwhile
		return final
	}
	err := d.contain(func() error { return d.commit(f) })
	if errors.Is(err, syscall.EIO) { // bbolt does not say whether a write or a flush failed
		err = fmt.Errorf("%w: %s: %w", durable.ErrSync, d.index, err)
	}
	return d.health.note(err)
}

// contain calls f, and converts a panic to an error. bbolt panics on pages that it cannot interpret, and reads beyond
// its mapping if a page refers there. Such a read, or an error of the disk while a page is read, would end the process.
// After a panic nothing is written any more, because bbolt may hold its write lock forever.
func (d *Directory) contain(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = d.health.note(d.refuse("is damaged: %v", p))
		}
	}()
	return f()
}
