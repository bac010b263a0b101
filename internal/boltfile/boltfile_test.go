package boltfile_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/internal/boltfile"
	"github.com/modproxy/modproxy/test/rig"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// mapped is the initial mapping, with which transactions can read while the file grows.
const mapped = 64 << 20

// open returns a database that does not flush.
func open(t testing.TB, mapped int) (*bbolt.DB, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{NoSync: true, InitialMmapSize: mapped})
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db, name
}

// content maps the number of a bucket and a key to the value, and the number of a bucket to its name and sequence.
type content map[string]string

// entries walks the file and returns its content. It checks the order of the keys.
func entries(t testing.TB, f *boltfile.File, damaged func(error)) (content, error) {
	all, last, n := content{}, "", 0
	err := f.Walk(t.Context(), boltfile.Visitor{
		Bucket: func(name []byte, sequence uint64) error {
			n++
			all[fmt.Sprint(n)] = fmt.Sprintf("%q, %d", name, sequence)
			last = ""
			return nil
		},
		Entry: func(_, key, value []byte) error {
			if damaged == nil && string(key) <= last {
				t.Errorf("%q comes after %q", key, last)
			}
			last = string(key)
			all[fmt.Sprint(n, last)] = string(value)
			return nil
		},
		Damaged: damaged,
	})
	return all, err
}

// read calls entries for the bytes of a file.
func read(t testing.TB, file []byte, damaged func(error)) (content, error) {
	f, err := boltfile.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil && !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("Open = %v", err)
	}
	if f == nil || err != nil && damaged == nil {
		return nil, err
	}
	return entries(t, f, damaged)
}

// viaBolt returns the content that bbolt finds.
func viaBolt(t testing.TB, tx *bbolt.Tx) content {
	t.Helper()
	all, n := content{}, 0
	must(t, tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		n++
		all[fmt.Sprint(n)] = fmt.Sprintf("%q, %d", name, b.Sequence())
		return b.ForEach(func(k, v []byte) error {
			all[fmt.Sprint(n, string(k))] = string(v)
			return nil
		})
	}))
	return all
}

// change makes a random transaction. Some values take many pages, and some buckets become empty.
func change(t testing.TB, db *bbolt.DB, r *rand.Rand) {
	t.Helper()
	must(t, db.Update(func(tx *bbolt.Tx) error {
		name := fmt.Appendf(nil, "bucket-%d", r.IntN(5))
		b, err := tx.CreateBucketIfNotExists(name)
		if err != nil {
			return err
		}
		deletes := r.IntN(3) == 0
		for range 1 + r.IntN(60) {
			key := fmt.Appendf(nil, "%0*d", 1+r.IntN(80), r.IntN(500))
			if deletes {
				err = errors.Join(err, b.Delete(key))
				continue
			}
			size := r.IntN(300)
			if r.IntN(20) == 0 {
				size = r.IntN(30_000)
			}
			err = errors.Join(err, b.Put(key, bytes.Repeat([]byte{byte(size)}, size)))
		}
		if r.IntN(10) == 0 {
			err = errors.Join(err, b.ForEach(func(k, _ []byte) error { return b.Delete(k) }))
		}
		_, errSequence := b.NextSequence()
		return errors.Join(err, errSequence)
	}))
}

// A walk accepts every file that bbolt writes, and finds the same content as bbolt, also for old transactions that a
// reader holds, and after the file was reopened.
func TestWalkFindsWhatBoltWrites(t *testing.T) {
	db, name := open(t, mapped)
	r := rand.New(rand.NewPCG(1, 2))
	var readers []*bbolt.Tx
	var then []content
	look := func() {
		t.Helper()
		file, err := os.ReadFile(name)
		must(t, err)
		found, err := read(t, file, nil)
		must(t, err)
		must(t, db.View(func(tx *bbolt.Tx) error {
			if want := viaBolt(t, tx); !maps.Equal(found, want) {
				t.Fatalf("transaction %d: %d entries, and bbolt has %d", tx.ID(), len(found), len(want))
			}
			return nil
		}))
	}
	look()
	rounds := 20
	if rig.Long() {
		rounds = 60
	}
	for i := range rounds {
		change(t, db, r)
		look()
		if i%5 == 0 {
			tx, err := db.Begin(false)
			must(t, err)
			readers, then = append(readers, tx), append(then, viaBolt(t, tx))
		}
		if len(readers) > 5 {
			must(t, readers[0].Rollback())
			readers, then = readers[1:], then[1:]
		}
		if i == rounds/2 {
			for _, tx := range readers {
				must(t, tx.Rollback())
			}
			readers, then = nil, nil
			must(t, db.Close())
			var err error
			db, err = bbolt.Open(name, 0o600, &bbolt.Options{NoSync: true, InitialMmapSize: mapped})
			must(t, err)
			t.Cleanup(func() { db.Close() })
		}
	}
	for _, tx := range readers {
		must(t, tx.Rollback())
	}
}

// A transaction that a reader holds can be read while others are committed.
func TestOpenAt(t *testing.T) {
	db, name := open(t, mapped)
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		change(t, db, r)
	}
	file, err := os.Open(name)
	must(t, err)
	defer file.Close()
	tx, err := db.Begin(false)
	must(t, err)
	info, err := file.Stat()
	must(t, err)
	f := boltfile.OpenAt(file, info.Size(), uint64(tx.ID()))
	if f == nil {
		t.Fatal("the transaction is not there")
	}
	want := viaBolt(t, tx)
	done := make(chan bool)
	go func() {
		defer close(done)
		for range 30 {
			change(t, db, r)
		}
	}()
	for range 3 {
		if found, err := entries(t, f, nil); err != nil || !maps.Equal(found, want) {
			t.Errorf("%d entries of %d, %v", len(found), len(want), err)
		}
		<-done
	}
	must(t, tx.Rollback())
	if boltfile.OpenAt(file, info.Size(), f.TxID()) != nil {
		t.Error("a transaction was found whose meta page was overwritten")
	}
}

// sample returns a file with branch pages, values of many pages, free pages, and a bucket inside its element. branch is
// the position of the branch page of its large bucket.
func sample(t testing.TB) (file []byte, branch int) {
	db, name := open(t, 0)
	for i := range 4 { // the later ones leave free pages
		must(t, db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("large"))
			for k := range 120 {
				err = errors.Join(err, b.Put(fmt.Appendf(nil, "key-%03d", k), bytes.Repeat([]byte{byte(k)}, 90+i)))
			}
			err = errors.Join(err, b.Put([]byte("many pages"), bytes.Repeat([]byte("x"), 9000)))
			small, errSmall := tx.CreateBucketIfNotExists([]byte("small"))
			_, errEmpty := tx.CreateBucketIfNotExists([]byte("empty"))
			return errors.Join(err, errSmall, errEmpty, small.Put([]byte("a"), []byte("b")), small.Put([]byte("c"), []byte("d")))
		}))
	}
	must(t, db.View(func(tx *bbolt.Tx) error {
		branch = int(tx.Bucket([]byte("large")).Root()) * os.Getpagesize()
		return nil
	}), db.Close())
	file, err := os.ReadFile(name)
	must(t, err)
	return file, branch
}

// After any bit flips, a walk ends with damage, or finds as many entries as before. At most one entry or bucket
// differs.
func TestAnyBit(t *testing.T) {
	file, _ := sample(t)
	want, err := read(t, file, nil)
	must(t, err)
	noticed, bits := 0, 0
	zeros, others := 1999, 113 // one of that many bytes is tried
	if rig.Long() {
		zeros, others = 499, 29
	}
	for at := range file {
		for _, bit := range []byte{1, 4, 32, 128} {
			if few := at + int(bit); file[at] == 0 && few%zeros > 0 || few%others > 0 {
				continue // there are too many
			}
			bits++
			file[at] ^= bit
			found, err := read(t, file, nil)
			switch {
			case errors.Is(err, boltfile.ErrDamaged):
				noticed++
				if _, err := read(t, file, func(error) {}); err != nil && !errors.Is(err, boltfile.ErrDamaged) { // without a meta page there is nothing to walk
					t.Errorf("byte %d: what is whole: %v", at, err)
				}
			case err != nil:
				t.Errorf("byte %d: %v", at, err)
			case len(found) != len(want) || differ(found, want) > 1:
				t.Errorf("byte %d, bit %d: %d entries of %d, %d are others", at, bit, len(found), len(want), differ(found, want))
			}
			file[at] ^= bit
		}
	}
	if noticed == 0 {
		t.Error("nothing was noticed")
	}
	t.Logf("%d of %d bits were noticed", noticed, bits)
}

// differ returns the number of entries of want that found does not have.
func differ(found, want content) (n int) {
	for key, value := range want {
		if is, ok := found[key]; !ok || is != value {
			n++
		}
	}
	return n
}

// Pages that form a circle end a walk. With Damaged, the walk finds the entries that the circle does not hide.
func TestCircles(t *testing.T) {
	file, at := sample(t)
	want, err := read(t, file, nil)
	must(t, err)
	id := uint64(at / os.Getpagesize())
	for i := range int(binary.NativeEndian.Uint16(file[at+10:])) {
		circle := bytes.Clone(file)
		binary.NativeEndian.PutUint64(circle[at+16+16*i+8:], id)
		if _, err := read(t, circle, nil); !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("child %d: %v", i, err)
		}
		noticed := 0
		found, err := read(t, circle, func(error) { noticed++ })
		if err != nil || noticed == 0 || len(found) < len(want)/2 || len(found) >= len(want) {
			t.Errorf("child %d: %d of %d entries, noticed %d, %v", i, len(found), len(want), noticed, err)
		}
	}
}

// Damage is reported, and the intact entries are found.
func TestDamage(t *testing.T) {
	file, branch := sample(t)
	size := os.Getpagesize()
	for name, damage := range map[string]func([]byte) []byte{
		"first meta page":  func(b []byte) []byte { clear(b[:size]); return b },
		"second meta page": func(b []byte) []byte { clear(b[size : 2*size]); return b },
		"swapped": func(b []byte) []byte {
			a := bytes.Clone(b[:size])
			copy(b, b[size:2*size])
			copy(b[size:], a)
			return b
		},
		"branch zero": func(b []byte) []byte { clear(b[branch : branch+size]); return b },
		"branch key": func(b []byte) []byte { // differs from the first key of the page below
			element := b[branch+16:]
			key := element[binary.NativeEndian.Uint32(element):][:binary.NativeEndian.Uint32(element[4:])]
			key[len(key)-1]--
			return b
		},
		"cut":         func(b []byte) []byte { return b[:3*size] },
		"half a page": func(b []byte) []byte { return b[:branch+100] },
	} {
		b := damage(bytes.Clone(file))
		if _, err := read(t, b, nil); !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := read(t, b, func(error) {}); err != nil && !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("%s: what is whole: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"nothing": nil, "two bytes": file[:2], "zeros": make([]byte, 99_999), "both": append(make([]byte, 2*size), file[2*size:]...)} {
		if f, err := boltfile.Open(bytes.NewReader(b), int64(len(b))); f != nil || !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// A walk ends with its context, and with the error of its visitor.
func TestWalkEnds(t *testing.T) {
	file, _ := sample(t)
	f, err := boltfile.Open(bytes.NewReader(file), int64(len(file)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	enough := errors.New("enough")
	n := 0
	err = f.Walk(ctx, boltfile.Visitor{Entry: func(_, _, _ []byte) error {
		if n++; n == 5 {
			return enough
		}
		return nil
	}, Damaged: func(err error) { t.Error(err) }})
	if err != enough || n != 5 {
		t.Errorf("%v after %d entries", err, n)
	}
	cancel()
	if err := f.Walk(ctx, boltfile.Visitor{Entry: func(_, _, _ []byte) error { return nil }, Damaged: func(err error) { t.Error(err) }}); err != context.Canceled {
		t.Error(err)
	}
}

// FuzzWalk overwrites parts of a file. Every walk must end, and return only slices of the bytes that it read.
func FuzzWalk(f *testing.F) {
	file, _ := sample(f)
	f.Add(uint32(0), []byte{1}, uint32(5000), []byte{2})
	f.Add(uint32(8192), bytes.Repeat([]byte{0xff}, 16), uint32(16384+8), []byte{1, 0, 255, 255})
	f.Fuzz(func(t *testing.T, at uint32, b []byte, at2 uint32, b2 []byte) {
		damaged := bytes.Clone(file)
		copy(damaged[int(at)%len(file):], b)
		copy(damaged[int(at2)%len(file):], b2)
		for _, note := range []func(error){nil, func(error) {}} {
			if _, err := read(t, damaged, note); err != nil && !errors.Is(err, boltfile.ErrDamaged) {
				t.Error(err)
			}
		}
	})
}

// BenchmarkWalk reads 100,000 entries of 300 bytes.
func BenchmarkWalk(b *testing.B) {
	db, name := open(b, 0)
	for i := range 100 {
		must(b, db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("bucket"))
			for k := range 1000 {
				err = errors.Join(err, bucket.Put(fmt.Appendf(nil, "key-%08d", i*1000+k), make([]byte, 300)))
			}
			return err
		}))
	}
	file, err := os.Open(name)
	must(b, err)
	defer file.Close()
	info, err := file.Stat()
	must(b, err)
	b.SetBytes(info.Size())
	for b.Loop() {
		f, err := boltfile.Open(file, info.Size())
		must(b, err, f.Walk(b.Context(), boltfile.Visitor{Entry: func(_, _, _ []byte) error { return nil }}))
	}
}
