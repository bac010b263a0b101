package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

var vpc = modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

// Whichever flush fails, nothing was kept, nothing is left over, and nothing more
// is kept before the next Open: nobody knows what is on the disk.
func TestFlushFails(t *testing.T) {
	data, digest := cachetest.Bytes(100_000, 1)
	rec := cache.PackageRecord{Digest: digest, Sum: "h1:a", Size: 100_000}
	broken := errors.New("input/output error")
	for number := 1; ; number++ {
		s, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		flushes := 0
		s.sync = func(f *os.File) error {
			if flushes++; flushes == number {
				return broken
			}
			return f.Sync()
		}
		errPut := s.Put(t.Context(), digest, bytes.NewReader(data))
		if errPut != nil {
			if _, err := s.Open(digest); !errors.Is(errPut, broken) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("flush %d: Put %v, then Open %v", number, errPut, err)
			}
		}
		errRecord := s.PutPackage(vpc, "1.0.0", rec)
		if errRecord != nil && !errors.Is(errRecord, broken) {
			t.Errorf("flush %d: PutPackage %v", number, errRecord)
		}
		if left, err := os.ReadDir(s.path(tempName)); len(left) > 0 || err != nil {
			t.Errorf("flush %d: left over: %v, %v", number, left, err)
		}
		if errPut == nil && errRecord == nil {
			if number < 7 { // temp and both directories, for the blob and for the sidecar
				t.Errorf("only %d flushes", number-1)
			}
			return
		}
		if errRecord == nil {
			t.Errorf("flush %d: a record after a flush that failed", number)
		}
		for _, err := range []error{s.PutVersions(vpc, cache.VersionsRecord{}), s.PutUses([]cache.Use{{Digest: digest}}), s.Ready()} {
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), "restarted") {
				t.Errorf("flush %d: the next try: %v", number, err)
			}
		}
		s.Close()
		if s, err = Open(s.dir); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, err := range []error{s.Put(t.Context(), digest, bytes.NewReader(data)), s.PutPackage(vpc, "1.0.0", rec), s.Ready()} {
			if err != nil {
				t.Errorf("flush %d: after the next Open: %v", number, err)
			}
		}
		if got, err := s.Package(vpc, "1.0.0"); got != rec || err != nil {
			t.Errorf("flush %d: %+v, %v", number, got, err)
		}
	}
}

// The order on the disk: a directory entry is flushed after the file it names,
// and the record last.
func TestOrderOfFlushes(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	data, digest := cachetest.Bytes(1000, 1)
	hex := digest.String()
	blob := filepath.Join(blobsName, hex[:2], hex)
	var order []string
	s.sync = func(f *os.File) error {
		name, err := filepath.Rel(s.dir, f.Name())
		if err != nil {
			return err
		}
		if filepath.Dir(name) == tempName {
			name = "file"
		}
		if _, err := os.Stat(s.path(blob)); err == nil {
			name += " blob"
		}
		if _, err := s.Package(vpc, "1.0.0"); err == nil {
			name += " record"
		}
		order = append(order, name)
		return f.Sync()
	}
	if err := s.Put(t.Context(), digest, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	want := []string{blobsName, blobsName, "file", filepath.Dir(blob) + " blob", "tmp blob"}
	if !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

// A crash between the sidecar and the record leaves a directory that opens, with
// the record.
func TestCrashBeforeTheRecord(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, digest := cachetest.Bytes(1000, 1)
	want := cache.PackageRecord{Digest: digest, Sum: "h1:a", Size: 1000}
	value, err := sealPackage(vpc, "1.0.0", want)
	for _, err := range []error{
		err, s.PutPackage(vpc, "1.1.0", want), s.Put(t.Context(), digest, bytes.NewReader(data)),
		s.writeSidecar(sidecarName(packageKey(vpc, "1.0.0")), value), s.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for opened := range 2 {
		if s, err = Open(dir); err != nil {
			t.Fatal(err)
		}
		n := 0
		for kept, err := range s.Packages(vpc) {
			if kept.Record != want || err != nil {
				t.Errorf("%+v, %v", kept, err)
			}
			n++
		}
		if n != 2 || s.Mended() != 1-opened {
			t.Errorf("%d records, %d mended", n, s.Mended())
		}
		s.Close()
	}
}

// Trouble of the storage stops what is written, not what is read, and passes. The
// reader's own errors are none of it.
func TestTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		data, digest := cachetest.Bytes(1000, 1)
		rec := cache.PackageRecord{Digest: digest, Sum: "h1:a", Size: 1000}
		if err := errors.Join(s.Put(t.Context(), digest, bytes.NewReader(data)), s.PutPackage(vpc, "1.0.0", rec)); err != nil {
			t.Fatal(err)
		}
		other, otherDigest := cachetest.Bytes(1000, 2)
		if err := s.Put(t.Context(), otherDigest, iotest.ErrReader(syscall.EIO)); err == nil || s.Ready() != nil {
			t.Errorf("an error of the reader: %v, then %v", err, s.Ready())
		}
		// Where temporary files are written is no directory any more, as if the
		// file system were read-only.
		tmp := s.path(tempName)
		if err := errors.Join(os.Rename(tmp, tmp+".away"), os.Symlink("/proc/self/nowhere", tmp)); err != nil {
			t.Fatal(err)
		}
		s.Doubt(io.ErrUnexpectedEOF)
		s.Doubt(nil)
		if err := s.Ready(); err != nil {
			t.Errorf("what is not about the storage: %v", err)
		}
		s.Doubt(&fs.PathError{Op: "open", Path: tmp, Err: syscall.EROFS})
		for _, err := range []error{s.Put(t.Context(), otherDigest, bytes.NewReader(other)), s.PutPackage(vpc, "1.0.1", rec), s.Ready()} {
			if !errors.Is(err, syscall.EROFS) {
				t.Errorf("in trouble: %v", err)
			}
		}
		if got, err := s.Package(vpc, "1.0.0"); got != rec || err != nil {
			t.Errorf("a record: %+v, %v", got, err)
		}
		if blob, err := s.Open(digest); err != nil {
			t.Errorf("a blob: %v", err)
		} else {
			blob.Close()
		}
		time.Sleep(troublePause)
		if err := s.Ready(); err == nil {
			t.Error("it is ready, and cannot write")
		}
		if err := errors.Join(os.Remove(tmp), os.Rename(tmp+".away", tmp)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(troublePause)
		if err := s.Ready(); err != nil {
			t.Errorf("after the trouble: %v", err)
		}
		if err := s.Put(t.Context(), otherDigest, bytes.NewReader(other)); err != nil {
			t.Errorf("after the trouble: %v", err)
		}
	})
}
