package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// A million entries stop at the limit, in tar and in zip archives.
func TestEntries(t *testing.T) {
	var tarball bytes.Buffer
	zw := gzip.NewWriter(&tarball)
	tw := tar.NewWriter(zw)
	for i := range 10_001 {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("d%d/", i%10)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := unpack(t, tarball.Bytes(), archive.TarGzip, pack.Limits{Entries: 10_000})
	wantRefused(t, err, "more than the 10000 entries")

	million := make([]byte, 46_000_000)
	end := zipOf(t, func(r []byte) {
		copy(r[8:], []byte{0xfe, 0xff, 0xfe, 0xff})
		copy(r[12:], []byte{0x80, 0xe8, 0xbd, 0x02})
	})
	million = append(million, end...)
	wantLittle(t, 2, func() {
		_, _, err = unpack(t, million, archive.Zip, pack.Limits{Entries: 10_000})
		wantRefused(t, err, "65534 entries, more than the 10000")
	})
}

// The bytes to which a small archive may expand do not depend on its size. The ratio applies to larger archives.
func TestRatio(t *testing.T) {
	zeros := make([]byte, 1<<20)
	small := zipOf(t, nil, part{name: "zeros", content: string(zeros), method: 8})
	if _, _, err := unpack(t, small, archive.Zip, pack.Limits{}); err != nil {
		t.Errorf("a megabyte of zeros: %v", err)
	}
	var parts []part
	for i := range 65 {
		parts = append(parts, part{name: fmt.Sprint(i), content: string(zeros), method: 8})
	}
	large := zipOf(t, nil, parts...)
	_, _, err := unpack(t, large, archive.Zip, pack.Limits{})
	wantRefused(t, err, "expands to more than the 67108864 bytes that are allowed for its size")
}

// cancelAfter cancels a context after some reads.
type cancelAfter struct {
	io.ReaderAt
	reads  int
	cancel context.CancelFunc
}

func (c *cancelAfter) ReadAt(p []byte, off int64) (int, error) {
	if c.reads--; c.reads == 0 {
		c.cancel()
	}
	return c.ReaderAt.ReadAt(p, off)
}

// A context that ends also stops the work on bytes that were read earlier.
func TestCancel(t *testing.T) {
	for name, bomb := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b, err := pack.New(t.TempDir(), pack.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			f := &cancelAfter{bytes.NewReader(bomb.data), 1, cancel}
			err = archive.Unpack(ctx, f, int64(len(bomb.data)), bomb.format, b)
			if !errors.Is(err, context.Canceled) || errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
