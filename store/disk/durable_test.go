package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

// After any failed flush, the blob does not exist, no file is left over, and nothing more is stored before the next
// Open, because the state of the disk is unknown.
func TestFlushFails(t *testing.T) {
	for name, from := range froms(t) {
		t.Run(name, func(t *testing.T) { testFlushFails(t, from) })
	}
}

func testFlushFails(t *testing.T, from func([]byte) io.Reader) {
	data, digest := storetest.Bytes(100_000, 1)
	broken := errors.New("input/output error")
	for number := 1; ; number++ {
		dir := t.TempDir()
		d := mustOpen(t, dir)
		flushes := 0
		d.FailSync(func(*os.File) error {
			if flushes++; flushes == number {
				return broken
			}
			return nil
		})
		errPut := d.Blobs().Put(t.Context(), digest, from(data))
		if left, err := os.ReadDir(d.Path("tmp")); len(left) > 0 || err != nil {
			t.Errorf("flush %d: left over: %v, %v", number, left, err)
		}
		if errPut == nil {
			if number < 5 { // the directories, the file, and both of its directories
				t.Errorf("only %d flushes", number-1)
			}
			return
		}
		if _, err := d.Blobs().Open(t.Context(), digest); !errors.Is(errPut, broken) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("flush %d: Put %v, then Open %v", number, errPut, err)
		}
		all := changes(t, d, digest)
		all["Ready"] = d.Ready()
		for what, err := range all {
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), "restarted") {
				t.Errorf("flush %d: then %s: %v", number, what, err)
			}
		}
		must(t, d.Close())
		d = mustOpen(t, dir)
		must(t, d.Blobs().Put(t.Context(), digest, from(data)), d.Ready())
	}
}

// The order on the disk: the name is flushed after the file, and before a record needs it.
func TestOrderOfFlushes(t *testing.T) {
	for name, from := range froms(t) {
		t.Run(name, func(t *testing.T) { testOrderOfFlushes(t, from) })
	}
}

func testOrderOfFlushes(t *testing.T, from func([]byte) io.Reader) {
	d := mustOpen(t, t.TempDir())
	data, digest := storetest.Bytes(1000, 1)
	hex := digest.String()
	blob := filepath.Join("blobs/v1/sha256", hex[:2], hex)
	var order []string
	d.FailSync(func(f *os.File) error {
		name, err := filepath.Rel(d.Path(), f.Name())
		if filepath.Dir(name) == "tmp" {
			name = "file"
		}
		if _, err := os.Stat(d.Path(blob)); err == nil {
			name += " blob"
		}
		order = append(order, name)
		return err
	})
	must(t, d.Blobs().Put(t.Context(), digest, from(data)))
	want := []string{"blobs/v1/sha256", "blobs/v1/sha256", "file", filepath.Dir(blob) + " blob", "tmp blob"}
	if !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

// froms are the ways to put a blob: from bytes, which are copied, and from a file, which is linked.
func froms(t *testing.T) map[string]func([]byte) io.Reader {
	dir := t.TempDir()
	return map[string]func([]byte) io.Reader{
		"bytes": func(data []byte) io.Reader { return bytes.NewReader(data) },
		"file": func(data []byte) io.Reader {
			f, err := os.CreateTemp(dir, "")
			must(t, err, os.WriteFile(f.Name(), data, 0o600))
			t.Cleanup(func() { f.Close() })
			return linkable{f}
		},
	}
}

type linkable struct{ *os.File }

func (f linkable) Link(name string) error { return os.Link(f.Name(), name) }

// A file is linked, not copied.
func TestFileIsKept(t *testing.T) {
	data, digest := storetest.Bytes(100_000, 1)
	d := mustOpen(t, t.TempDir())
	from := froms(t)["file"](data).(linkable)
	must(t, d.Blobs().Put(t.Context(), digest, from))
	was, err := os.Stat(from.Name())
	is, errBlob := os.Stat(blobName(d, digest))
	if must(t, err, errBlob); !os.SameFile(was, is) || is.Mode().Perm() != 0o444 {
		t.Errorf("%v, %v", was, is.Mode())
	}
}

// A crash between storing a blob and its record, or between deleting a record and its blob, leaves a blob.
func TestCrashLeavesBlobs(t *testing.T) {
	dir := t.TempDir()
	digest := fill(t, dir)
	data, other := storetest.Bytes(1000, 2)
	d := mustOpen(t, dir)
	must(t, d.Blobs().Put(t.Context(), other, bytes.NewReader(data)))
	name := blobName(d, digest)
	must(t, os.Link(name, name+".kept"))
	_, err := d.Blobs().Remove(t.Context(), store.Evict, digest)
	must(t, err, d.Close(), os.Rename(name+".kept", name)) // as after a power cut
	d = mustOpen(t, dir)
	n := 0
	for _, err := range d.Blobs().Blobs(t.Context()) {
		must(t, err)
		n++
	}
	if _, err := d.Records().Get(t.Context(), packageRef); n != 2 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d blobs, and Get = %v", n, err)
	}
	must(t, d.Records().Delete(t.Context(), listRef, revisionOf(t, d, listRef)))
	put(t, d)
	holds(t, d, digest)
}

func revisionOf(t *testing.T, d *disk.Directory, ref store.Ref) uint64 {
	t.Helper()
	r, err := d.Records().Get(t.Context(), ref)
	must(t, err)
	return r.Revision
}

// On a full disk, blobs are removed although the index cannot be written. Their records are deleted as soon as there is
// room.
func TestRemoveOnFullDisk(t *testing.T) {
	for how, name := range map[store.Removal]string{store.Evict: "evict", store.ToQuarantine: "set aside", store.Collect: "collect"} {
		for _, room := range []bool{false, true} { // after the file was removed
			t.Run(fmt.Sprint(name, " ", room), func(t *testing.T) {
				d := mustOpen(t, t.TempDir())
				digest := put(t, d)
				data, orphan := storetest.Bytes(1000, 2)
				must(t, d.Blobs().Put(t.Context(), orphan, bytes.NewReader(data)))
				d.FailCommit(func() error {
					if _, err := d.Blobs().Stat(t.Context(), orphan); err != nil && room {
						return nil
					}
					return syscall.ENOSPC
				})
				removed, err := d.Blobs().Remove(t.Context(), how, digest, orphan)
				want := 2
				if how == store.Collect {
					want = 1
				}
				if len(removed) != want || err != nil {
					t.Errorf("Remove = %v, %v", removed, err)
				}
				if how == store.Collect {
					holds(t, d, digest)
					return
				}
				if _, err := d.Blobs().Open(t.Context(), digest); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Open = %v", err)
				}
				if _, err := d.Records().Get(t.Context(), packageRef); errors.Is(err, fs.ErrNotExist) != room {
					t.Errorf("Get = %v", err)
				}
				if err := d.Ready(); err != nil {
					t.Errorf("Ready = %v", err)
				}
			})
		}
	}
}

// A failed change of the index changes nothing. After a failed flush, no further change is made.
func TestCommitFails(t *testing.T) {
	for _, broken := range []error{syscall.ENOSPC, syscall.EIO} {
		d := mustOpen(t, t.TempDir())
		digest := put(t, d)
		d.FailCommit(func() error { return broken })
		_, err := d.Records().Put(t.Context(), store.Record{Ref: store.Ref{Kind: "a", Key: "b"}})
		if !errors.Is(err, broken) {
			t.Errorf("Put = %v", err)
		}
		if err := d.Ready(); (err != nil) != (broken == syscall.EIO) {
			t.Errorf("Ready = %v after %v", err, broken)
		}
		if _, err := d.Blobs().Remove(t.Context(), store.Evict, digest); broken == syscall.EIO && !errors.Is(err, broken) {
			t.Errorf("Remove = %v", err)
		} else if broken == syscall.EIO {
			holds(t, d, digest)
		}
	}
}

// Ready reports an error of the file system until a later write succeeds. Errors of the caller's reader do not count.
func TestTrouble(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	digest := put(t, d)
	other, otherDigest := storetest.Bytes(1000, 2)
	if err := d.Blobs().Put(t.Context(), otherDigest, iotest.ErrReader(syscall.EIO)); err == nil || d.Ready() != nil {
		t.Errorf("an error of the reader: %v, then %v", err, d.Ready())
	}
	// The directory of temporary files is replaced, so that writes fail as on a read-only file system.
	tmp := d.Path("tmp")
	must(t, os.Rename(tmp, tmp+".away"), os.Symlink("/proc/self/nowhere", tmp))
	d.Doubt(io.ErrUnexpectedEOF)
	d.Doubt(nil)
	if err := d.Ready(); err != nil {
		t.Errorf("what is not about the file system: %v", err)
	}
	d.Doubt(&fs.PathError{Op: "open", Path: tmp, Err: syscall.EROFS})
	for range 2 {
		if err := d.Ready(); err == nil {
			t.Error("it is ready, and cannot write")
		}
	}
	holds(t, d, digest)
	must(t, os.Remove(tmp), os.Rename(tmp+".away", tmp))
	must(t, d.Ready(), d.Blobs().Put(t.Context(), otherDigest, bytes.NewReader(other)))
}
