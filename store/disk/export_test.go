package disk

import (
	"os"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/store"
)

// Damage flips a bit of a record in the index.
func (d *Directory) Damage(t *testing.T, ref store.Ref) {
	t.Helper()
	if err := d.update(t.Context(), func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketName(ref.Kind))
		value := append([]byte(nil), b.Get([]byte(ref.Key))...)
		value[len(value)-1] ^= 1
		return b.Put([]byte(ref.Key), value)
	}); err != nil {
		t.Fatal(err)
	}
}

// FailSync makes each flush return the error of fail, if it is not nil.
func (d *Directory) FailSync(fail func(*os.File) error) {
	d.disk.Sync = func(f *os.File) error {
		if err := fail(f); err != nil {
			return err
		}
		return f.Sync()
	}
}

// FailCommit makes each change of the index return the error of fail, if it is not nil.
func (d *Directory) FailCommit(fail func() error) {
	d.commit = func(f func(*bbolt.Tx) error) error {
		return d.db.Update(func(tx *bbolt.Tx) error {
			if err := f(tx); err != nil {
				return err
			}
			return fail()
		})
	}
}

// Path returns the path of an entry of the layout.
func (d *Directory) Path(elem ...string) string { return d.path(elem...) }

// Flushes reports whether a change of the index is flushed before it returns.
func (d *Directory) Flushes() bool { return !d.db.NoSync }

// Waiting returns the number of updates that wait for their commit.
func (d *Directory) Waiting() int {
	d.waiting.Lock()
	defer d.waiting.Unlock()
	return len(d.updates)
}
