package ledger

import (
	"context"
	"fmt"
	"io/fs"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/tlog"
)

const maxTileHeight = 10 // of one request; the standard client requests tiles of height 8

// ServerOps returns the operations with which sumdb.NewServer serves the log, by [Key]. The error for missing data is
// [fs.ErrNotExist].
func (l *Log) ServerOps() sumdb.ServerOps { return ops{l} }

type ops struct{ log *Log }

func (o ops) Signed(context.Context) ([]byte, error) {
	o.log.mu.RLock()
	defer o.log.mu.RUnlock()
	return o.log.head, nil
}

func (o ops) Lookup(_ context.Context, m module.Version) (int64, error) {
	v, err := ParseKey(m)
	o.log.mu.RLock()
	defer o.log.mu.RUnlock()
	p, own, _ := o.log.index.current(ids(v))
	if err != nil || !own { // a record of another spelling does not have the client's module path
		return 0, absent("lookup", m.String())
	}
	return int64(p.number), nil
}

func (o ops) ReadRecords(_ context.Context, first, n int64) ([][]byte, error) {
	if size := o.log.Tree().N; first < 0 || n < 0 || n > 1<<maxTileHeight || first > size-n {
		return nil, absent("read", fmt.Sprintf("records %d to %d", first, first+n-1))
	}
	texts := make([][]byte, n)
	for i := range texts {
		var err error
		if texts[i], err = o.log.text(first + int64(i)); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func (o ops) ReadTileData(_ context.Context, t tlog.Tile) ([]byte, error) {
	o.log.mu.RLock()
	size, hashes := o.log.tree.N, o.log.index.hashes
	o.log.mu.RUnlock()
	// A hash exists once all the records below it exist.
	if t.H < 1 || t.H > maxTileHeight || t.L < 0 || t.L > 63/t.H || t.N < 0 || t.N > size ||
		t.W < 1 || t.W > 1<<t.H || t.N<<t.H+int64(t.W) > size>>(t.H*t.L) {
		return nil, absent("read", t.Path())
	}
	return tlog.ReadTileData(t, hashes)
}

// absent returns an unwrapped *fs.PathError: sumdb.Server uses os.IsNotExist, which does not unwrap errors.
func absent(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}
