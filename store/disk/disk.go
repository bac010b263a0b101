// Package disk stores records and blobs in a directory.
//
//	d, err := disk.Open(ctx, dir)
//	s := store.New(store.Config{Records: d.Records(), Blobs: d.Blobs(), Quarantine: d})
//
// Invariant: a file of the layout exists with all of its bytes, durably, or does not exist. A new blob is written to a
// temporary file, flushed and renamed, and both directories are flushed, before a record refers to it. If a flush
// fails, storing the blob fails.
//
// The layout, below the directory:
//
//	layout.json                   the version of the layout
//	index.db                      records, and last uses of blobs, in bbolt
//	blobs/v1/sha256/ab/<digest>   blobs, read-only
//	quarantine/<name>.<time>      damaged blobs and indexes
//	tmp/                          files being written; emptied by Open
//
// The index is not trusted. bbolt has no checksums of records, so each record has its own, which covers its kind and
// key. bbolt trusts its pages, so Open first checks all of them, and that no record is lost. Blobs are not trusted
// either; their readers check them. One process at a time has a directory open for writing: it locks index.db.
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
	tempBase       = "modproxy" // prefix of the names of temporary files
)

var blobsName = filepath.Join("blobs", "v1", "sha256")

// Directory is an open directory. It is safe for concurrent use.
type Directory struct {
	dir   string
	index string // path of the index
	db    *bbolt.DB
	file  *os.File // the index, for reading; owned by db
	disk  durable.Disk

	layout   int   // version in layout.json; zero without the file
	readOnly error // why changes are not allowed; nil if they are
	tolerant bool  // records may be damaged
	health   health

	open   sync.RWMutex // held for reading during changes of the directory
	closed bool

	writing sync.Mutex                        // held during a change of the index and of the files that belong to it
	waiting sync.Mutex                        // held for short accesses to updates
	updates []*update                         // waiting for writing
	commit  func(func(*bbolt.Tx) error) error // db.Update except in tests
}

// Options are the options of [OpenWith].
type Options struct {
	// ReadOnly opens a directory without writing to it. Every change returns an error that is [syscall.EROFS]. Several
	// processes may open a directory in this way, while no process has it open for writing. A directory in which
	// nothing was ever stored is refused.
	ReadOnly bool
	// Damaged accepts an index with damaged or lost records, so that it can be verified.
	Damaged bool
}

// Open opens a directory for writing, as [OpenWith] does.
func Open(ctx context.Context, dir string) (*Directory, error) { return OpenWith(ctx, dir, Options{}) }

// OpenWith opens a directory, and creates it if it does not exist. It refuses a directory that another process has
// open, one with a newer layout, and one with stored data whose index is missing, empty, truncated or damaged. The
// error names a remedy.
func OpenWith(ctx context.Context, dir string, o Options) (*Directory, error) {
	d := newDirectory(dir)
	d.tolerant = o.Damaged
	if o.ReadOnly {
		d.readOnly = fmt.Errorf("%s: %w: cached packages are served; to store more, restart modproxy with a writable directory",
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

// prepare does the steps that are safe while another process has the directory open.
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

// ReadOnly returns why the directory cannot be changed. It is nil unless the directory was opened with the option
// ReadOnly.
func (d *Directory) ReadOnly() error { return d.readOnly }

// Close waits for changes in progress and closes the directory. Open blobs stay readable. A damaged index stays open
// until the process ends, because bbolt would wait for a write that has panicked.
func (d *Directory) Close() error {
	d.open.Lock()
	defer d.open.Unlock()
	d.closed = true
	if final, _ := d.health.get(); isIndexError(final) {
		return nil
	}
	return d.db.Close()
}

// change is called before a change. The caller must call done afterwards, unless err is set.
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

// readLayout reads the version of the layout, and refuses unknown versions.
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

// writeLayout writes layout.json if it does not exist. On a full disk it must exist already, because making room
// includes opening the directory.
func (d *Directory) writeLayout() error {
	if d.layout > 0 {
		return nil
	}
	return d.disk.WriteFile(d.path(layoutName), func(f *os.File) error {
		_, err := fmt.Fprintf(f, "{\"layout\":%d}\n", layoutVersion)
		return err
	})
}
