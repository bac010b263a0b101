package boltfile_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/internal/boltfile"
)

// filled returns a bucket of n keys after many others were removed. Some values take several pages.
func filled(t testing.TB, n int) (*bbolt.DB, string) {
	t.Helper()
	db, name := open(t, mapped)
	key := func(i int) []byte { return fmt.Appendf(nil, "%08x", uint32(i)*2654435761) }
	must(t, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("b"))
		for i := 0; i < 2*n && err == nil; i++ {
			value := bytes.Repeat([]byte{byte(i)}, i%300)
			if i%97 == 0 {
				value = bytes.Repeat([]byte{byte(i)}, 10_000+i%5000)
			}
			err = b.Put(key(i), value)
		}
		return err
	}), db.Update(func(tx *bbolt.Tx) (err error) {
		for i := 0; i < 2*n && err == nil; i += 2 {
			err = tx.Bucket([]byte("b")).Delete(key(i))
		}
		return err
	}))
	return db, name
}

// A cursor finds the same entries as bbolt's cursor, from every key and from between the keys, during other
// transactions.
func TestCursor(t *testing.T) {
	db, name := filled(t, 3000)
	file, err := os.Open(name)
	must(t, err)
	defer file.Close()
	tx, err := db.Begin(false)
	must(t, err)
	defer tx.Rollback()
	must(t, db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("b")) }))
	bucket := tx.Bucket([]byte("b"))
	want := bucket.Cursor()
	var got boltfile.Cursor
	got.Reset(file, db.Info().PageSize, tx.Size(), uint64(bucket.Root()))
	same := func(at string, k, v, gotK, gotV []byte, err error) {
		t.Helper()
		if err != nil || !bytes.Equal(k, gotK) || !bytes.Equal(v, gotV) {
			t.Fatalf("%s: %q, %d bytes, %v, want %q, %d bytes", at, gotK, len(gotV), err, k, len(v))
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		key := fmt.Sprintf("%08x", random.Uint32())[:random.IntN(9)]
		k, v := want.Seek([]byte(key))
		gotK, gotV, err := got.Seek([]byte(key))
		same(key, k, v, gotK, gotV, err)
		for range random.IntN(100) {
			k, v = want.Next()
			gotK, gotV, err = got.Next()
			same("after "+key, k, v, gotK, gotV, err)
		}
	}
	n := 0
	k, _, err := got.Seek(nil)
	for ; k != nil && err == nil; k, _, err = got.Next() {
		n++
	}
	if n != 3000 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
}

// A cursor on damaged pages ends, with an error if it detects the damage.
func TestCursorOfDamaged(t *testing.T) {
	db, name := filled(t, 300)
	var root uint64
	var size int64
	pageSize := db.Info().PageSize
	must(t, db.View(func(tx *bbolt.Tx) error {
		root, size = uint64(tx.Bucket([]byte("b")).Root()), tx.Size()
		return nil
	}))
	file, err := os.ReadFile(name)
	must(t, err)
	file = file[:size]
	var pages []int // of the bucket, and others from earlier transactions
	for page := 2; page < len(file)/pageSize; page++ {
		if b := file[page*pageSize:]; binary.NativeEndian.Uint64(b) == uint64(page) && b[8] != 0 {
			pages = append(pages, page)
		}
	}
	random := rand.New(rand.NewPCG(2, 2))
	noticed := 0
	for range 1000 {
		begin := file[pages[random.IntN(len(pages))]*pageSize:][:256] // the header and elements are at the beginning of a page
		was := bytes.Clone(begin)
		for range 1 + random.IntN(3) {
			begin[random.IntN(len(begin))] ^= 1 << random.IntN(8)
		}
		var c boltfile.Cursor
		c.Reset(bytes.NewReader(file), pageSize, size, root)
		n := 0
		k, _, err := c.Seek(nil)
		for ; k != nil && err == nil; k, _, err = c.Next() {
			if n++; n > len(file) {
				t.Fatal("it does not end")
			}
		}
		c.Seek([]byte("8"))
		if err != nil {
			noticed++
		}
		copy(begin, was)
	}
	if noticed < 100 {
		t.Errorf("damage was noticed in %d of 1000 files", noticed)
	}
}

func BenchmarkCursorSeek(b *testing.B) {
	db, name := filled(b, 100_000)
	file, err := os.Open(name)
	must(b, err)
	defer file.Close()
	tx, err := db.Begin(false)
	must(b, err)
	defer tx.Rollback()
	root := uint64(tx.Bucket([]byte("b")).Root())
	var c boltfile.Cursor
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Reset(file, db.Info().PageSize, tx.Size(), root)
		if k, _, err := c.Seek(fmt.Appendf(nil, "%08x", uint32(2*i+1)*2654435761)); k == nil && err != nil {
			b.Fatal(err)
		}
	}
}
