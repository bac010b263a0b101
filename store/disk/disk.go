// Package disk keeps records and blobs in a directory.
//
// Invariant: a name of the layout has all of its bytes, durably, or is not there. What is kept is written to a
// temporary file, flushed, renamed, and both directories are flushed, before a record refers to it. A flush that
// fails is an error of what was to be kept.
//
// The layout, below the directory:
//
//	layout.json                   the version of the layout
//	index.db                      records, and when blobs were last used, in bbolt
//	blobs/v1/sha256/ab/<digest>   blobs, read-only
//	quarantine/<name>.<time>      what was damaged: blobs, indexes
//	tmp/                          what is being written; emptied by Open
//
// The index is not trusted: bbolt has no checksums of records, so that each has one of its own, which covers
// what the record is about. bbolt trusts its pages, so Open checks all of them before, and that no record is lost.
// Blobs are not trusted either; their readers check them. One process at a time has a directory open for writing: it
// locks index.db.
package disk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/store"
)

const (
	layoutVersion = 1

	layoutName     = "layout.json"
	indexName      = "index.db"
	quarantineName = "quarantine"
	tempName       = "tmp"
	tempBase       = "modproxy" // how the names of temporary files begin
)

var blobsName = filepath.Join("blobs", "v1", "sha256")

// Directory is a directory that is open. It is safe for concurrent use.
type Directory struct {
	dir   string
	index string // the path of the index
	db    *bbolt.DB
	file  *os.File // the index, for reading; of db
	disk  durable.Disk

	layout   int   // the version that layout.json says; zero if there is none
	readOnly error // why nothing may be changed; nil if it may
	tolerant bool  // records may be damaged
	health   health

	open   sync.RWMutex // held for reading while the directory is changed
	closed bool

	writing sync.Mutex                        // held while the index is changed, and what goes with it
	waiting sync.Mutex                        // held for a moment, for updates
	updates []*update                         // that wait for writing
	commit  func(func(*bbolt.Tx) error) error // db.Update, but in tests
}

// Options say how a directory is opened.
type Options struct {
	// ReadOnly opens a directory that cannot be written, or should not be. Every change is an error that is [syscall.EROFS]. Several
	// processes may have it open so, while none has it open to write. A directory in which nothing was ever stored is refused.
	ReadOnly bool
	// Damaged accepts an index with records that are damaged or lost, for verifying it.
	Damaged bool
}

// Open opens a directory for writing, as [OpenWith] does.
func Open(ctx context.Context, dir string) (*Directory, error) { return OpenWith(ctx, dir, Options{}) }

// OpenWith opens a directory, which it makes if it must. It refuses one that another process has open, one of a newer
// layout, and one whose index is missing beside what is kept, empty, cut short or damaged. The error says what to do.
func OpenWith(ctx context.Context, dir string, o Options) (*Directory, error) {
	d := newDirectory(dir)
	d.tolerant = o.Damaged
	if o.ReadOnly {
		d.readOnly = fmt.Errorf("%s: %w: what is kept is served; to keep more, restart modproxy with a directory that it can write",
			dir, syscall.EROFS)
		d.health.final = d.readOnly
	}
	err := d.prepare()
	if err == nil {
		err = d.openIndex(ctx)
	}
	if err == nil && d.readOnly == nil {
		err = errors.Join(durable.RemoveTemps(d.path(tempName), tempBase), d.writeLayout())
	}
	if err != nil && d.db != nil {
		err = errors.Join(err, d.db.Close())
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newDirectory(dir string) *Directory {
	return &Directory{dir: dir, index: filepath.Join(dir, indexName)}
}

// prepare does what may be done although another process has the directory open.
func (d *Directory) prepare() error {
	err := d.readLayout()
	for _, name := range []string{blobsName, quarantineName, tempName} {
		if err == nil && d.readOnly == nil {
			err = d.disk.MkdirAll(d.path(name))
		}
	}
	return err
}

func (d *Directory) Records() store.Records { return records{d} }

func (d *Directory) Blobs() store.Blobs { return blobs{d} }

// ReadOnly returns why nothing can be changed. It is nil unless the directory was opened for reading.
func (d *Directory) ReadOnly() error { return d.readOnly }

// Close closes the directory when the changes have ended that are under way. Blobs that are open stay readable. A damaged
// index stays open until the process ends: bbolt would wait for a write that has panicked.
func (d *Directory) Close() error {
	d.open.Lock()
	defer d.open.Unlock()
	d.closed = true
	if final, _ := d.health.get(); isIndexError(final) {
		return nil
	}
	return d.db.Close()
}

// change is called before something is changed; done is called afterwards.
func (d *Directory) change(ctx context.Context) (done func(), err error) {
	d.open.RLock()
	if err, _ = d.health.get(); err == nil && d.closed {
		err = fmt.Errorf("%s: %w", d.dir, fs.ErrClosed)
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		d.open.RUnlock()
		return nil, err
	}
	return d.open.RUnlock, nil
}

func (d *Directory) path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}

var errLayout = errors.New("damaged")

// readLayout reads the version of the layout, and refuses one that it does not know.
func (d *Directory) readLayout() error {
	name := d.path(layoutName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var l struct{ Layout int }
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("%s: %w: %w: %s", name, errLayout, err, remedyIndex)
	}
	if l.Layout < 1 {
		return fmt.Errorf("%s: %w: it names no layout: %s", name, errLayout, remedyIndex)
	}
	if d.layout = l.Layout; d.layout > layoutVersion {
		return fmt.Errorf("%s: layout %d, and this modproxy knows layouts up to %d: use the modproxy that wrote it, or a newer one; "+
			"if none did, the file is damaged: remove it", name, d.layout, layoutVersion)
	}
	return nil
}

// writeLayout writes a layout if there was none. On a full disk there must be one: to make room means to open
// the directory.
func (d *Directory) writeLayout() error {
	if d.layout > 0 {
		return nil
	}
	return d.disk.WriteFile(d.path(layoutName), func(f *os.File) error {
		_, err := fmt.Fprintf(f, "{\"layout\":%d}\n", layoutVersion)
		return err
	})
}
