package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// edit changes a closed index with bbolt.
func edit(t testing.TB, dir string, change func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, "index.db"), 0o600, nil)
	must(t, err)
	must(t, db.Update(change), db.Close())
}

// An index is checked before it is used: each record is as it was written, and none is lost. With Damaged, damage that
// verify can mend is accepted, found and mended.
func TestOpenChecksRecords(t *testing.T) {
	records, needs := []byte("v1/records/module-package"), []byte("v1/needs")
	const rebuild, verify = `"modproxy rebuild"`, `"modproxy verify --read-data --repair"`
	for name, c := range map[string]struct {
		change func(*bbolt.Tx) error
		remedy string // empty: the index is sound
		losses int
	}{
		"nothing": {func(*bbolt.Tx) error { return nil }, "", 0},
		"a use":   {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("v1/uses")).Put(make([]byte, 32), make([]byte, 8)) }, "", 0},
		"record damaged": {func(tx *bbolt.Tx) error {
			return tx.Bucket(records).Put([]byte(packageRef.Key), bytes.Repeat([]byte("x"), 100))
		}, verify, 0},
		"record lost":  {func(tx *bbolt.Tx) error { return tx.Bucket(records).Delete([]byte(packageRef.Key)) }, verify, 1},
		"records lost": {func(tx *bbolt.Tx) error { return tx.DeleteBucket(records) }, verify, 1},
		"need lost": {func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(needs).Cursor().First()
			return tx.Bucket(needs).Delete(k)
		}, verify, 1},
		"need of another": {func(tx *bbolt.Tx) error {
			b := tx.Bucket(needs)
			k, _ := b.Cursor().First()
			other := bytes.Clone(k)
			other[0] ^= 1
			return errors.Join(b.Delete(k), b.Put(other, nil))
		}, verify, 2},
		"foreign bucket": {func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("v1/recorfs/x")); return err }, rebuild, 0},
		"no uses":        {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("v1/uses")) }, rebuild, 0},
		"no needs":       {func(tx *bbolt.Tx) error { return tx.DeleteBucket(needs) }, rebuild, 0},
		"old sequence":   {func(tx *bbolt.Tx) error { return tx.Bucket(needs).SetSequence(5) }, rebuild, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir)
			edit(t, dir, c.change)
			d, err := disk.Open(t.Context(), dir)
			if c.remedy == "" {
				must(t, err, d.Close())
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.remedy) {
				t.Fatalf("Open = %v", err)
			}
			d, err = disk.OpenWith(t.Context(), dir, disk.Options{Damaged: true})
			if c.remedy == rebuild {
				if err == nil || !strings.Contains(err.Error(), rebuild) {
					t.Errorf("Open to verify = %v", err)
				}
				return
			}
			must(t, err)
			inspector := d.Records().(store.Inspector)
			found, err := inspector.Inspect(t.Context())
			if err != nil || found.Damage != nil || len(found.Lost) != c.losses {
				t.Errorf("Inspect = %+v, %v", found, err)
			}
			must(t, inspector.Mend(t.Context(), found.Lost))
			for _, ref := range []store.Ref{packageRef, listRef} {
				r, _ := d.Records().Get(t.Context(), ref) // a damaged record has the revision zero
				must(t, d.Records().Delete(t.Context(), ref, r.Revision))
			}
			if found, err := inspector.Inspect(t.Context()); err != nil || len(found.Lost) != 0 {
				t.Errorf("after Mend, Inspect = %+v, %v", found, err)
			}
			put(t, d)
			must(t, d.Close())
			mustOpen(t, dir)
		})
	}
}

// After a damaged record is deleted or put again, the index contains no needs of it.
func TestDamagedRecordLeavesNothing(t *testing.T) {
	for name, change := range map[string]func(*disk.Directory) error{
		"deleted": func(d *disk.Directory) error { return d.Records().Delete(t.Context(), packageRef, 0) },
		"put": func(d *disk.Directory) error {
			_, err := d.Records().Put(t.Context(), store.Record{Ref: packageRef})
			return err
		},
	} {
		d := mustOpen(t, t.TempDir())
		put(t, d)
		d.Damage(t, packageRef)
		must(t, change(d))
		if found, err := d.Records().(store.Inspector).Inspect(t.Context()); err != nil || found.Damage != nil || len(found.Lost) > 0 {
			t.Errorf("%s: Inspect = %+v, %v", name, found, err)
		}
		must(t, d.Close())
	}
}

// A check ends with its context.
func TestOpenEnds(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := disk.Open(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v", err)
	}
}

// Needed yields each blob once, for any number of records and blobs.
func TestNeeded(t *testing.T) {
	dir := t.TempDir()
	want := map[modproxy.Digest]int{fill(t, dir): 1}
	edit(t, dir, func(tx *bbolt.Tx) (err error) {
		for i := range 5000 {
			digest := modproxy.Digest{byte(i), byte(i >> 8 % 8)}
			want[digest] = 1
			err = errors.Join(err, tx.Bucket([]byte("v1/needs")).Put(fmt.Appendf(digest[:], "k\x00%d", i), nil))
		}
		return err
	})
	d, err := disk.OpenWith(t.Context(), dir, disk.Options{Damaged: true})
	must(t, err)
	got := map[modproxy.Digest]int{}
	for digest, err := range d.Records().(store.Inspector).Needed(t.Context()) {
		must(t, err)
		got[digest]++
	}
	must(t, d.Close())
	if !maps.Equal(got, want) || len(got) != 2049 {
		t.Errorf("%d blobs; want %d", len(got), len(want))
	}
}
