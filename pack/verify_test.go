package pack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"testing"
	"time"

	"github.com/modproxy/modproxy/pack"
)

// tarball is a tar.gz of empty files with the given headers.
func tarball(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	tw := tar.NewWriter(zw)
	for _, h := range headers {
		if h.ModTime.IsZero() {
			h.ModTime = time.Unix(0, 0)
		}
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func fileHeader(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}
}

func gzipped(t testing.TB, header gzip.Header, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	zw.Header = header
	if _, err := zw.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestVerifyRefuses(t *testing.T) {
	file := fileHeader
	with := func(change func(h *tar.Header)) []byte {
		h := file("a")
		change(&h)
		return tarball(t, h)
	}
	good := tarball(t, file("a"))
	if _, err := pack.Verify(bytes.NewReader(good), pack.Limits{}); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for _, tt := range []struct {
		name   string
		packed []byte
		why    string
	}{
		{"nothing", nil, "EOF"},
		{"another thing", []byte("<!DOCTYPE html>"), "not gzip"},
		{"no tar", gzipped(t, gzip.Header{}, []byte("hello")), "unexpected EOF"},
		{"no file", tarball(t), "it has no file"},
		{"cut short", good[:len(good)-9], "unexpected EOF"},
		{"flipped bit", flipped, ""},
		{"gzip name", gzipped(t, gzip.Header{Name: "x"}, nil), "its header is not empty"},
		{"gzip time", gzipped(t, gzip.Header{ModTime: time.Unix(1, 0)}, nil), "its header is not empty"},
		{"second member", append(bytes.Clone(good), good...), "data follows the gzip member"},
		{"garbage behind", append(bytes.Clone(good), 0), "data follows the gzip member"},
		{"zeros in tar", gzipped(t, gzip.Header{}, append(ungzip(t, good), make([]byte, 512)...)), "512 bytes follow"},
		{"order", tarball(t, file("b"), file("a")), `"a": comes after "b"`},
		{"twice", tarball(t, file("a"), file("a")), `"a": comes after "a"`},
		{"file and directory", tarball(t, file("a"), file("a!"), file("a/b")), `"a": is a file and also a directory`},
		{"file and directory further down", tarball(t, file("b/a"), file("b/a/c/d")), `"b/a": is a file and also a directory`},
		{"direction", tarball(t, file("a\u2066")), "changes the direction"},
		{"name", tarball(t, file("../a")), `the component ".."`},
		{"git", tarball(t, file("a/.git/b")), "packages leave .git out"},
		{"directory", with(func(h *tar.Header) { h.Typeflag, h.Name = tar.TypeDir, "a/" }), ""},
		{"link", with(func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, "b" }), "is not a regular file"},
		{"mode", with(func(h *tar.Header) { h.Mode = 0o4755 }), "has mode 04755"},
		{"owner", with(func(h *tar.Header) { h.Uid = 1 }), "has an owner"},
		{"group name", with(func(h *tar.Header) { h.Gname = "wheel" }), "has an owner"},
		{"time", with(func(h *tar.Header) { h.ModTime = time.Unix(1, 0) }), "has an owner, a time"},
		{"attributes", with(func(h *tar.Header) { h.PAXRecords = map[string]string{"SCHILY.xattr.user.a": "b"} }), "other attributes"},
		{"more content than is allowed", with(func(h *tar.Header) { h.Size = 1<<20 + 1 }), "more content than the 1048576 bytes"},
		{"more entries than are allowed", tarball(t, file("a"), file("b"), file("c"), file("d")), "more than the 3 entries"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := pack.Verify(bytes.NewReader(tt.packed), pack.Limits{Bytes: 1 << 20, Entries: 3})
			wantRefused(t, err, tt.why)
		})
	}
}

func ungzip(t testing.TB, packed []byte) []byte {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(zr); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
