package disk_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

// breakFreeList overwrites the list of free pages of an open index: bbolt panics at the next commit, and again while it
// rolls back.
func breakFreeList(t *testing.T, d *disk.Directory) {
	t.Helper()
	index, err := os.ReadFile(d.Path("index.db"))
	must(t, err)
	const freeList = 0x10 // internal/common/page.go of bbolt
	size := os.Getpagesize()
	for at := 2 * size; at+size <= len(index); at += size {
		if binary.NativeEndian.Uint16(index[at+8:]) == freeList {
			must(t, overwrite(d.Path("index.db"), int64(at), strings.Repeat("\x00", size)))
		}
	}
}

// After a panic in a write, stored data can be read, further writes fail at once, and Ready and every write name a
// remedy. Close does not wait for the transaction that bbolt has left open.
func TestPanicInWrite(t *testing.T) {
	for name, fail := range map[string]func(*testing.T, *disk.Directory){
		"the rollback panics too": breakFreeList,
		"the rollback works": func(_ *testing.T, d *disk.Directory) {
			d.FailCommit(func() error { panic("page 7 already freed") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustOpen(t, t.TempDir())
			digest := put(t, d)
			fail(t, d)
			failed := func(err error) bool {
				return err != nil && strings.Contains(err.Error(), "the index is damaged") && strings.Contains(err.Error(), "modproxy rebuild")
			}
			if err := putting(t, d, "first", 0)(); !failed(err) {
				t.Errorf("the write that panics: %v", err)
			}
			all := changes(t, d, digest)
			all["Ready"] = d.Ready()
			for what, err := range all {
				if !failed(err) {
					t.Errorf("then %s: %v", what, err)
				}
			}
			holds(t, d, digest)
			must(t, d.Close())
			if err := putting(t, d, "last", 0)(); !failed(err) && !errors.Is(err, fs.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// Writes that wait while another write panics return its error.
func TestPanicWhileOthersWait(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	_, digest := storetest.Bytes(1000, 1)
	errs, _ := together(t, d, func() error { panic("page 7 already freed") }, putting(t, d, "a", 0), putting(t, d, "b", 0), func() error {
		_, err := d.Records().Needing(context.WithoutCancel(t.Context()), digest)
		return errors.Join(err, putting(t, d, "c", 0)())
	})
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "modproxy rebuild") {
			t.Errorf("write %d: %v", i, err)
		}
	}
}
