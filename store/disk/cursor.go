package disk

import (
	"os"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/internal/boltfile"
)

// cursor reads a bucket of the index from the file. Pages read through bbolt's mapping would stay in the memory of the
// process as long as the system has no other use for it, for a large index all of them.
type cursor struct {
	pages *boltfile.Cursor
	small *bbolt.Cursor // for a bucket without its own pages, which is inside the page that lists the buckets
}

// cursors contains *boltfile.Cursor values, to reuse their buffers.
var cursors = sync.Pool{New: func() any { return new(boltfile.Cursor) }}

// read calls f with a cursor of a bucket in a read-only transaction. If the bucket does not exist, read does nothing.
func (d *Directory) read(tx *bbolt.Tx, name []byte, f func(cursor) error) error {
	bucket := tx.Bucket(name)
	if bucket == nil {
		return nil
	}
	root := uint64(bucket.Root())
	if root == 0 {
		return f(cursor{small: bucket.Cursor()})
	}
	pages := cursors.Get().(*boltfile.Cursor)
	defer cursors.Put(pages)
	pages.Reset(d.file, d.db.Info().PageSize, tx.Size(), root)
	return f(cursor{pages: pages})
}

// seek is like [boltfile.Cursor.Seek].
func (c cursor) seek(key []byte) (k, v []byte, err error) {
	if c.small != nil {
		k, v = c.small.Seek(key)
		return k, v, nil
	}
	return c.pages.Seek(key)
}

// next is like [boltfile.Cursor.Next].
func (c cursor) next() (k, v []byte, err error) {
	if c.small != nil {
		k, v = c.small.Next()
		return k, v, nil
	}
	return c.pages.Next()
}

// openFile opens the index for bbolt, which closes it, and stores the file in d for reading. Later calls, for other
// files, leave d unchanged.
func (d *Directory) openFile(name string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag, mode)
	if d.file == nil {
		d.file = f
	}
	return f, err
}
