package archive_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

var fuzzLimits = pack.Limits{Entries: 100, Bytes: 1 << 20}

// seed adds archives of real programs.
func seed(f *testing.F, pattern string) {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// fuzz unpacks data, which must either become a package or be refused.
func fuzz(t *testing.T, data []byte, format archive.Format) ([]byte, modproxy.Sum, bool) {
	packed, sum, err := unpack(t, data, format, fuzzLimits)
	if err != nil {
		wantRefused(t, err, "")
		return nil, "", false
	}
	if verified, err := pack.Verify(bytes.NewReader(packed), pack.Limits{}); err != nil || verified != sum {
		t.Errorf("Verify = %s, %v, want %s", verified, err, sum)
	}
	return packed, sum, true
}

func FuzzTar(f *testing.F) {
	f.Add(tarOf(f, file("./a", "1"), link("l", "a")))
	f.Add(tarOf(f, global(map[string]string{"comment": "x"}), pax(file("a", "1"), map[string]string{"SCHILY.xattr.a": "b"})))
	f.Add(tarOf(f, file(strings.Repeat("d/", 150)+"a", "1")))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzz(t, gzipped(t, data), archive.TarGzip)
	})
}

func FuzzGzip(f *testing.F) {
	seed(f, "testdata/real/git.tar.gz")
	f.Fuzz(func(t *testing.T, data []byte) { fuzz(t, data, archive.TarGzip) })
}

func FuzzBzip2(f *testing.F) {
	seed(f, "testdata/real/*.bz2")
	f.Fuzz(func(t *testing.T, data []byte) { fuzz(t, data, archive.TarBzip2) })
}

// FuzzXz checks that accepted data has the same content with another reader of the container.
func FuzzXz(f *testing.F) {
	seed(f, "testdata/real/*xz")
	content := lzma2(tarOf(f, file("a", "1")))
	f.Add(xzOf(xzBlock(0, 0x21, 1, 8), content, 12+len(content), 2048))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, sum, ok := fuzz(t, data, archive.TarXz)
		if !ok {
			return
		}
		r, err := xz.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(r) // any bytes may follow the tar archive
		if _, other, _ := fuzz(t, gzipped(t, content), archive.TarGzip); other != sum {
			t.Errorf("sum is %s, by another reader %s", sum, other)
		}
	})
}

// FuzzZip checks that an accepted archive has the same files with another reader.
func FuzzZip(f *testing.F) {
	seed(f, "testdata/real/*.zip")
	f.Add(zipOf(f, nil, part{name: "a", content: "1"}, part{name: "b", content: "22", method: 8}))
	f.Fuzz(func(t *testing.T, data []byte) {
		packed, _, ok := fuzz(t, data, archive.Zip)
		if !ok {
			return
		}
		r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, f := range files(t, packed) {
			have[f[2:]] = true
		}
		last := map[string]*zip.File{}
		for _, f := range r.File {
			if !strings.HasSuffix(f.Name, "/") {
				last[path.Clean("/" + f.Name)[1:]] = f
			}
		}
		for name, f := range last {
			if !f.Mode().IsRegular() || strings.Contains(strings.ToLower("/"+name+"/"), "/.git/") {
				continue
			}
			rc, err := f.Open()
			if err != nil {
				t.Fatalf("%q: %v", f.Name, err)
			}
			content, err := io.ReadAll(rc)
			if err != nil {
				t.Fatalf("%q: %v", f.Name, err)
			}
			if !have[name+" "+string(content)] {
				t.Errorf("another reader finds %q with %q", f.Name, content)
			}
		}
	})
}
