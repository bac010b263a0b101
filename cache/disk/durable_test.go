package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

var vpc = modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

// Whichever flush fails, nothing was kept, and nothing is left over; the next
// try keeps it.
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
			if number < 7 { // temp, both directories, for the blob and the sidecar; and the layout
				t.Errorf("only %d flushes", number-1)
			}
			return
		}
		for _, err := range []error{s.Put(t.Context(), digest, bytes.NewReader(data)), s.PutPackage(vpc, "1.0.0", rec)} {
			if err != nil {
				t.Errorf("flush %d: the next try: %v", number, err)
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

// A crash between the sidecar and the first record leaves a directory that opens.
func TestCrashBeforeTheFirstRecord(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, digest := cachetest.Bytes(1000, 1)
	value, err := sealPackage(vpc, "1.0.0", cache.PackageRecord{Digest: digest, Sum: "h1:a", Size: 1000})
	for _, err := range []error{
		err, s.Put(t.Context(), digest, bytes.NewReader(data)), s.writeSidecar("abcdef", value), s.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	s.Close()
}
