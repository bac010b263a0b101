package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// unpack reads an archive into a package with the given limits.
func unpack(t testing.TB, data []byte, format archive.Format, l pack.Limits) ([]byte, modproxy.Sum, error) {
	t.Helper()
	b, err := pack.New(t.TempDir(), l)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := archive.Unpack(context.Background(), bytes.NewReader(data), int64(len(data)), format, b); err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	packed, err := b.Pack(&out, "")
	return out.Bytes(), packed.Sum, err
}

// files lists a package: "f name content", or "x name content" for executable files.
func files(t testing.TB, packed []byte) []string {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		kind := map[int64]string{0o644: "f ", 0o755: "x "}[h.Mode]
		list = append(list, kind+h.Name+" "+string(content))
	}
}

func wantRefused(t testing.TB, err error, why string) {
	t.Helper()
	if !errors.Is(err, modproxy.ErrInvalid) || errors.Is(err, modproxy.ErrUnavailable) {
		t.Fatalf("error is %v, want ErrInvalid", err)
	}
	if !strings.Contains(err.Error(), why) {
		t.Errorf("error is %q, want it to say %q", err, why)
	}
}

// testdata/real has one tree in archives of GNU tar, git, Info-ZIP, Python and xz. All of them preserve its links and
// modes.
func TestRealArchives(t *testing.T) {
	names, err := filepath.Glob("testdata/real/*")
	if err != nil || len(names) < 12 {
		t.Fatal(names, err)
	}
	lines := new(strings.Builder)
	for i := 1; i <= 2000; i++ {
		lines.WriteString(strings.TrimLeft(string([]byte{'0' + byte(i/1000), '0' + byte(i/100%10), '0' + byte(i/10%10), '0' + byte(i%10)}), "0") + "\n")
	}
	b := lines.String()
	want := []string{"f a.tf hi\n", "f dir/b.txt " + b, "f l " + b, "x run.sh echo x\n", "f sub/b.txt " + b, "f é.tf é"}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			format := archive.FormatOf(name, "")
			if sniffed, err := archive.Sniff(bytes.NewReader(data)); err != nil || sniffed != format {
				t.Errorf("Sniff = %q, %v; want %q", sniffed, err, format)
			}
			packed, _, err := unpack(t, data, format, pack.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, files(t, packed)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			// No part of the archive may be missing.
			for _, n := range []int{0, 1, 11, len(data) / 2, len(data) - 30, len(data) - 13, len(data) - 1} {
				if bytes.Count(data[n:], []byte{0}) == len(data)-n {
					continue // padding
				}
				part, _, err := unpack(t, data[:n], format, pack.Limits{})
				if strings.Contains(name, "streams") && bytes.Equal(part, packed) {
					continue // after the stream in which the tar archive ends
				}
				if !errors.Is(err, modproxy.ErrInvalid) {
					t.Errorf("the first %d of %d bytes: %v", n, len(data), err)
				}
			}
		})
	}
}

func TestSniffRefuses(t *testing.T) {
	for _, content := range []string{"", "PK", "PK\x05\x06", "ustar"} {
		_, err := archive.Sniff(strings.NewReader(content))
		wantRefused(t, err, "neither a zip archive")
	}
	for _, page := range []string{"<html>", " \n<!doctype html><title>Sign in</title>"} {
		_, err := archive.Sniff(strings.NewReader(page))
		wantRefused(t, err, "an HTML page instead of an archive")
	}
	if _, err := archive.Sniff(brokenFile{io.ErrNoProgress}); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("Sniff of a file that cannot be read: %v, want ErrUnavailable", err)
	}
}

func TestFormatOf(t *testing.T) {
	for _, tt := range []struct {
		path, archive string
		want          archive.Format
	}{
		{"/x.zip", "", archive.Zip},
		{"/x.tar.gz", "", archive.TarGzip},
		{"/x.tgz", "", archive.TarGzip},
		{"/x.tar.bz2", "", archive.TarBzip2},
		{"/x.tar.tbz2", "", archive.TarBzip2},
		{"/x.tbz2", "", archive.TarBzip2},
		{"/x.tar.xz", "", archive.TarXz},
		{"/x.txz", "", archive.TarXz},
		{"/x", "zip", archive.Zip},
		{"/x.zip", "tar.gz", archive.TarGzip},
		{"/x.zip", "false", ""},
		{"/x.zip", "0", ""},
		{"/x.zip", "true", ""},
		{"/x", "tar.zst", ""},
		{"/x.ZIP", "", ""},
		{"/x.tar.GZ", "", ""},
		{"/x.gz", "", ""},
		{"/x.tar", "", ""},
		{"/zip", "", ""},
		{"/x.zip/", "", ""},
		{"", "", ""},
	} {
		got := archive.FormatOf(tt.path, tt.archive)
		if got != tt.want {
			t.Errorf("FormatOf(%q, %q) = %v, want %v", tt.path, tt.archive, got, tt.want)
		}
	}
}

func TestChecksum(t *testing.T) {
	const (
		md5    = "5d41402abc4b2a76b9719d911017c592"
		sha1   = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
		sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
		sha512 = "9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca72323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043"
	)
	for _, s := range []string{md5, sha1, sha256, sha512, "md5:" + md5, "sha1:" + sha1, "sha256:" + sha256, "sha512:" + sha512, strings.ToUpper(sha256)} {
		c, err := archive.ParseChecksum(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if err := c.Verify(context.Background(), strings.NewReader("hello"), 5); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		err = c.Verify(context.Background(), strings.NewReader("hellO"), 5)
		wantRefused(t, err, "but the location says")
	}
	for s, why := range map[string]string{
		"":                        `algorithm "" and 0 digits`,
		"sha256:":                 `algorithm "sha256" and 0 digits`,
		"sha256:" + md5:           `algorithm "sha256" and 32 digits`,
		"crc32:01020304":          `algorithm "crc32" and 8 digits: want an md5`,
		"SHA256:" + sha256:        `algorithm "SHA256" and 64 digits`,
		"xyz":                     "want hexadecimal digits",
		"sha1:" + sha1[1:] + "g":  "want hexadecimal digits",
		md5[2:]:                   `algorithm "" and 30 digits`,
		"file:https://x.test/sum": "is not looked up",
	} {
		_, err := archive.ParseChecksum(s)
		wantRefused(t, err, why)
	}
}

// brokenFile is a file on a failing disk.
type brokenFile struct{ error }

func (f brokenFile) ReadAt([]byte, int64) (int, error) { return 0, f.error }

func TestTrouble(t *testing.T) {
	for _, format := range []archive.Format{archive.Zip, archive.TarGzip, archive.TarBzip2, archive.TarXz} {
		b, err := pack.New(t.TempDir(), pack.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		trouble := errors.New("trouble")
		err = archive.Unpack(context.Background(), brokenFile{trouble}, 1<<20, format, b)
		if !errors.Is(err, trouble) || !errors.Is(err, modproxy.ErrUnavailable) || errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%v from a broken disk: %v", format, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err = archive.Unpack(ctx, strings.NewReader("x"), 1, format, b)
		if !errors.Is(err, context.Canceled) || errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%v when cancelled: %v", format, err)
		}
	}
	_, _, err := unpack(t, []byte("x"), "", pack.Limits{})
	wantRefused(t, err, "no archive format")
}
