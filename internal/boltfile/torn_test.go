package boltfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/internal/boltfile"
)

// grow inserts some keys in one transaction.
func grow(t *testing.T, db *bbolt.DB, r *rand.Rand) {
	t.Helper()
	must(t, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("b"))
		for range 3 {
			if err == nil {
				err = b.Put(fmt.Appendf(nil, "%016x", r.Uint64()), make([]byte, r.IntN(300)))
			}
		}
		return err
	}))
}

// versions returns a file after each of several transactions.
func versions(t *testing.T, r *rand.Rand) (list [][]byte) {
	t.Helper()
	db, name := open(t, 0)
	for range 60 {
		grow(t, db, r)
		file, err := os.ReadFile(name)
		must(t, err)
		list = append(list, file)
	}
	must(t, db.Close())
	return list
}

// growCopy writes a file and inserts keys with bbolt. The error is a panic of bbolt.
func growCopy(t *testing.T, file []byte, r *rand.Rand) (err error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "copy")
	must(t, os.WriteFile(name, file, 0o600))
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{NoSync: true})
	must(t, err)
	defer func() { // after a panic bbolt holds its locks, and Close would wait for them
		if p := recover(); p != nil {
			err = fmt.Errorf("bbolt panics: %v", p)
		}
	}()
	for range 20 {
		grow(t, db, r)
	}
	return db.Close()
}

// If a copy of a file has pages of several transactions, the walk reports damage, or bbolt can write to the copy.
func TestTornCopies(t *testing.T) {
	accepted, copies, size := 0, 0, os.Getpagesize()
	r := rand.New(rand.NewPCG(2, 5))
	list := versions(t, r)
	for i := 30; i+1 < len(list); i++ { // earlier versions have few pages
		old := list[i]
		for k, now := range list[i+1 : min(i+6, len(list))] {
			for at := 2 * size; at < len(old); at += size {
				torn := bytes.Clone(now)
				copy(torn[at:], old[at:at+size])
				if bytes.Equal(torn, now) {
					continue
				}
				copies++
				if _, err := read(t, torn, nil); errors.Is(err, boltfile.ErrDamaged) {
					continue
				}
				accepted++
				if err := growCopy(t, torn, r); err != nil {
					t.Errorf("page %d of version %d in version %d: %v", at/size, i, i+1+k, err)
				}
			}
		}
	}
	t.Logf("%d of %d copies are accepted", accepted, copies)
}

// A leaf that is deeper than its neighbours is damage. bbolt would merge its branch with a leaf.
func TestDeeperLeaf(t *testing.T) {
	file, branch := sample(t)
	size, u32, u64 := os.Getpagesize(), binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	meta := file[16:]
	if second := file[size+16:]; u64(second[48:]) > u64(meta[48:]) {
		meta = second
	}
	list := file[int(u64(meta[32:]))*size:]
	n := binary.NativeEndian.Uint16(list[10:])
	free := u64(list[16+8*(int(n)-1):])
	binary.NativeEndian.PutUint16(list[10:], n-1)
	element := file[branch+16+16:] // the second one
	key, leaf := element[u32(element):][:u32(element[4:])], u64(element[8:])
	binary.NativeEndian.PutUint64(element[8:], free)

	page := binary.NativeEndian.AppendUint64(nil, free) // a branch with one element
	page = binary.NativeEndian.AppendUint16(page, 1)
	page = binary.NativeEndian.AppendUint16(page, 1)
	page = binary.NativeEndian.AppendUint32(page, 0)
	page = binary.NativeEndian.AppendUint32(page, 16)
	page = binary.NativeEndian.AppendUint32(page, uint32(len(key)))
	page = append(binary.NativeEndian.AppendUint64(page, leaf), key...)
	copy(file[int(free)*size:], page)

	if _, err := read(t, file, nil); !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("a walk: %v", err)
	}
	found, err := read(t, file, func(error) {})
	must(t, err)
	if want := 121 + 2 + 3; len(found) != want { // with the buckets
		t.Errorf("what is whole: %d entries, want %d", len(found), want)
	}
}
