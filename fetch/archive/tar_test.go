package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// An entry is one entry of a tar archive: a header, and content whose length is used unless the header has a size.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
}

func link(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, ""}
}

func typed(kind byte, name string) entry {
	return entry{tar.Header{Typeflag: kind, Name: name, Mode: 0o644}, ""}
}

func pax(e entry, records map[string]string) entry {
	e.PAXRecords = records
	return e
}

func global(records map[string]string) entry {
	return entry{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: records}, ""}
}

func withMode(e entry, mode int64) entry {
	e.Mode = mode
	return e
}

// tarOf writes an archive.
func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for _, e := range entries {
		if e.Size == 0 {
			e.Size = int64(len(e.content))
		}
		if err := tw.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if _, err := zw.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// block returns a header that archive/tar would not write.
func block(name string, kind byte, size int) []byte {
	b := make([]byte, 512)
	copy(b, name)
	copy(b[100:], "0000644\x000000000\x000000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x0000000000000\x00", size))
	b[156] = kind
	copy(b[257:], "ustar\x0000")
	return signed(b)
}

// signed sets the checksum of a header.
func signed(b []byte) []byte {
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

var tarEnd = make([]byte, 1024)

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func padded(s string) []byte { return append([]byte(s), make([]byte, -len(s)&511)...) }

func TestTar(t *testing.T) {
	a := file("a", "1")
	for _, tt := range []struct {
		name string
		tar  []byte
		want []string
	}{
		{"dot prefix", tarOf(t, typed(tar.TypeDir, "./"), file("./a", "1"), typed(tar.TypeDir, "./b/"), file("././b/c", "2")), []string{"f a 1", "f b/c 2"}},
		{"dot", tarOf(t, typed(tar.TypeDir, "."), a), []string{"f a 1"}},
		{"directories twice", tarOf(t, typed(tar.TypeDir, "b/"), file("b/c", "2"), typed(tar.TypeDir, "b/")), []string{"f b/c 2"}},
		{"modes", tarOf(t, withMode(file("s", ""), 0o6755), withMode(file("r", ""), 0o400), withMode(file("o", ""), 0o611)), []string{"f o ", "f r ", "x s "}},
		{"global header", tarOf(t, global(map[string]string{"comment": "0123"}), a), []string{"f a 1"}},
		{"attributes", tarOf(t, pax(a, map[string]string{"SCHILY.xattr.user.x": "y"})), []string{"f a 1"}},
		{"long name", tarOf(t, file(strings.Repeat("d/", 150)+"a", "1")), []string{"f " + strings.Repeat("d/", 150) + "a 1"}},
		{"git left out", tarOf(t, typed(tar.TypeDir, ".git/"), file(".git/config", "secret"), a, file("m/.GIT", "x")), []string{"f a 1"}},
		{"links", tarOf(t, link("l", "d/a"), file("d/a", "1"), entry{tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "./d/a"}, ""}, link("e", "d")), []string{"f d/a 1", "f e/a 1", "f h 1", "f l 1"}},
		{"no end", tarOf(t, a)[:1024], []string{"f a 1"}},
		{"half an end", tarOf(t, a)[:1536], []string{"f a 1"}},
		{"zeros behind", join(tarOf(t, a), make([]byte, 8<<10+1)), []string{"f a 1"}},
		{"archive in an archive", tarOf(t, file("b.tar", "PK\x03\x04")), []string{"f b.tar PK\x03\x04"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packed, _, err := unpack(t, gzipped(t, tt.tar), archive.TarGzip, pack.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, files(t, packed)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestHostileTar(t *testing.T) {
	a := file("a", "1")
	data := tarOf(t, a)
	sparse := map[string]string{"GNU.sparse.major": "2", "GNU.sparse.minor": "0", "GNU.sparse.name": "b", "GNU.sparse.realsize": "9"}
	record := strings.Repeat("x", 1<<10)
	record = fmt.Sprintf("%d comment=%s\n", len(record)+len("1024 comment=\n"), record)
	manyHeaders := bytes.Repeat(join(block("x", tar.TypeXHeader, len(record)), padded(record)), 300)
	for _, tt := range []struct {
		name string
		tar  []byte
		why  string
	}{
		{"nothing", nil, "it has no file"},
		{"no tar", []byte(strings.Repeat("hello ", 200)), "first entry: archive/tar: invalid tar header"},
		{"only directories", tarOf(t, typed(tar.TypeDir, "a/")), "it has no file"},
		{"cut in content", tarOf(t, file("a", "12"))[:513], "unexpected EOF"},
		{"cut in a header", data[:100], "unexpected EOF"},
		{"dot-dot", tarOf(t, file("../a", "1")), `"../a": the name has the component ".."`},
		{"dot-dot inside", tarOf(t, file("a/../../b", "1")), `the component ".."`},
		{"dot-dot behind dot", tarOf(t, file("./../a", "1")), `"./../a": the name has the component`},
		{"drive letter", tarOf(t, file("C:/a", "1")), "drive letter"},
		{"backslash", tarOf(t, file(`..\a`, "1")), "backslash"},
		{"newline", tarOf(t, file("a\nb", "1")), "control character"},
		{"4 kB name", tarOf(t, file(strings.Repeat("abc/", 1024)+"a", "1")), "a name of 4097 bytes"},
		{"no name", join(block("", tar.TypeReg, 0), tarEnd), "an entry without a name"},
		{"file named dot", join(block("./", tar.TypeReg, 0), tarEnd), "an entry without a name"},
		{"link in a circle", tarOf(t, link("l", "m"), link("m", "l"), a), "leads back to itself"},
		{"writing through a link", tarOf(t, typed(tar.TypeDir, "d/"), link("l", "d"), file("l/a", "1")), "is a symbolic link and also a directory"},
		{"link with content", join(signed(func() []byte { b := block("l", tar.TypeSymlink, 512); copy(b[157:], "a"); return b }()), block("b", tar.TypeReg, 0), tarEnd), "is a directory or a link, and has content"},
		{"directory with content", join(block("d/", tar.TypeDir, 512), block("b", tar.TypeReg, 0), tarEnd), "has content"},
		{"directory by its mode, with content", tarOf(t, withMode(file("a", "1"), 0o40755)), "is a directory or a link, and has content"},
		{"character device", tarOf(t, typed(tar.TypeChar, "a")), `"a": is a device`},
		{"block device", tarOf(t, typed(tar.TypeBlock, "a")), `"a": is a device`},
		{"named pipe", tarOf(t, typed(tar.TypeFifo, "a")), `"a": is a named pipe`},
		{"unknown type", join(block("a", 'Z', 0), tarEnd), `has the unknown type 'Z'`},
		{"continuous file", join(block("a", tar.TypeCont, 0), tarEnd), `has the unknown type '7'`},
		{"GNU volume", join(block("a", 'V', 0), tarEnd), `has the unknown type 'V'`},
		{"file and directory", tarOf(t, a, file("a/b", "1")), "is a file and also a directory"},
		{"git for NTFS", tarOf(t, file("GIT~1/config", "1")), "for .git"},
		{"sparse", join(block("a", tar.TypeGNUSparse, 0), tarEnd), "invalid tar header"},
		{"sparse by attributes", join(block("x", tar.TypeXHeader, 27), padded("27 GNU.sparse.realsize=100\n"), block("a", tar.TypeReg, 1), padded("1"), tarEnd), "is a sparse file"},
		{"sparse of an unknown version", paxTar(sparse), "is a sparse file"},
		{"global path", tarOf(t, global(map[string]string{"path": "b"}), a), "sets the path of every entry"},
		{"global link", tarOf(t, global(map[string]string{"linkpath": "b"}), a), "sets the linkpath of every entry"},
		{"global size", join(block("g", tar.TypeXGlobalHeader, 9), padded("9 size=0\n"), data), "sets the size of every entry"},
		{"long name of a gigabyte", join(block("././@LongLink", tar.TypeGNULongName, 1<<30), bytes.Repeat([]byte("a"), 1<<20)), "more than the 262144 bytes that are allowed for one header"},
		{"attributes of a gigabyte", join(block("x", tar.TypeXHeader, 1<<30), bytes.Repeat([]byte("a"), 1<<20)), "more than the 262144 bytes that are allowed for one header"},
		{"many headers for one entry", join(manyHeaders, data), "more than the 262144 bytes that are allowed for one header"},
		{"broken attributes", join(block("x", tar.TypeXHeader, 3), padded("9 x"), data), "invalid tar header"},
		{"negative size", join(signed(func() []byte { b := block("a", tar.TypeReg, 0); copy(b[124:], "-0000000001\x00"); return b }()), tarEnd), "invalid tar header"},
		{"wrong checksum", append([]byte("b"), data[1:]...), "invalid tar header"},
		{"one zero block inside", join(data[:1024], make([]byte, 512), data), "invalid tar header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := unpack(t, gzipped(t, tt.tar), archive.TarGzip, pack.Limits{})
			wantRefused(t, err, tt.why)
		})
	}
}

// paxTar returns an archive of one empty file with the given extended header.
func paxTar(records map[string]string) []byte {
	var body string
	for key, value := range records {
		s := " " + key + "=" + value + "\n"
		body += fmt.Sprintf("%d%s", len(s)+2, s)
	}
	return join(block("x", tar.TypeXHeader, len(body)), padded(body), block("a", tar.TypeReg, 0), tarEnd)
}

// Input that clients ignore, or treat as harmless, is accepted.
func TestToleratedTar(t *testing.T) {
	a := file("a", "1")
	data := tarOf(t, a)
	garbage := []byte("garbage behind it")
	for _, tt := range []struct {
		name    string
		archive []byte
		want    []string
	}{
		{"absolute", gzipped(t, tarOf(t, file("/etc/a", "1"))), []string{"f etc/a 1"}},
		{"absolute behind dot", gzipped(t, tarOf(t, file(".//etc/a", "1"))), []string{"f etc/a 1"}},
		{"dots and slashes", gzipped(t, tarOf(t, file("b//./a", "1"))), []string{"f b/a 1"}},
		{"file named like a directory", gzipped(t, join(block("a/", tar.TypeReg, 0), tarEnd)), []string{"f a "}},
		{"directory by its mode", gzipped(t, tarOf(t, a, withMode(file("b", ""), 0o40755), withMode(link("l", "a"), 0o40755))), []string{"f a 1"}},
		{"twice", gzipped(t, tarOf(t, a, file("./a", "2"))), []string{"f a 2"}},
		{"over a link", gzipped(t, tarOf(t, link("a", "b"), file("b", "1"), file("a", "2"))), []string{"f a 2", "f b 1"}},
		{"links to nothing", gzipped(t, tarOf(t, a, link("l", "/etc/passwd"), link("m", "../../a"), link("n", "nothing"))), []string{"f a 1"}},
		{"second archive", gzipped(t, join(data, tarOf(t, file("b", "2")))), []string{"f a 1"}},
		{"garbage behind the tar archive", gzipped(t, join(data, garbage)), []string{"f a 1"}},
		{"garbage behind", join(gzipped(t, data), garbage), []string{"f a 1"}},
		{"a byte behind", join(gzipped(t, data), []byte{0}), []string{"f a 1"}},
		{"a broken member behind", join(gzipped(t, data), gzipped(t, data)[:20]), []string{"f a 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packed, _, err := unpack(t, tt.archive, archive.TarGzip, pack.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, files(t, packed)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Damage around the tar archive.
func TestHostileGzip(t *testing.T) {
	data := tarOf(t, file("a", "1"))
	good := gzipped(t, data)
	members := join(gzipped(t, nil), gzipped(t, data[:700]), gzipped(t, nil), gzipped(t, data[700:]))
	if packed, _, err := unpack(t, members, archive.TarGzip, pack.Limits{}); err != nil || len(files(t, packed)) != 1 {
		t.Errorf("several members: %v", err)
	}
	for name, data := range map[string][]byte{
		"nothing":        nil,
		"a page":         []byte("<!DOCTYPE html><title>Sign in</title>"),
		"a zip file":     []byte("PK\x03\x04aaaaaaaaaaaaaaaa"),
		"cut short":      good[:len(good)-1],
		"wrong checksum": append(bytes.Clone(good[:len(good)-8]), 1, 2, 3, 4, 5, 6, 7, 8),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := unpack(t, data, archive.TarGzip, pack.Limits{})
			if says := "an HTML page instead of a tar.gz archive"; err != nil && (name == "a page") != strings.Contains(err.Error(), says) {
				t.Errorf("%v; want %s of a page only", err, says)
			}
			wantRefused(t, err, "")
		})
	}
}

// The output of bzip2 for a tar archive with the file a but without its end, and for an archive with the file b.
const (
	bzip2One = "QlpoOTFBWSZTWexlHv4AACtbkMmAQABthAAA4AAeAAQAAAggAFREA0AxHoMSNBGNRpo+lKvHAOPHwhTq1TZFgUu0SyBMNCIlzWYypzORF9gBWDi7kinChIdjKPfw"
	bzip2Two = "QlpoOTFBWSZTWSoAjEIAADXbkOmAQAB9hAAA8AAeAAQAAAggAFRWgNABoPUG0onpAyGgH2PLiYtIAWHUWarrFATQ3Wkgm0F5XYp7BD0hmsvb6AIEXxdyRThQkCoAjEI="
)

// Bytes after a bzip2 member count only before the end of the tar archive.
func TestBzip2Members(t *testing.T) {
	one, errOne := base64.StdEncoding.DecodeString(bzip2One)
	two, errTwo := base64.StdEncoding.DecodeString(bzip2Two)
	if err := errors.Join(errOne, errTwo); err != nil {
		t.Fatal(err)
	}
	for name, behind := range map[string][]byte{
		"nothing":            nil,
		"a byte":             []byte("B"),
		"zeros":              make([]byte, 512),
		"a damaged member":   join([]byte("XX"), two[2:]),
		"the end of one":     []byte("XX\x17\x72\x45\x38\x50\x90\x00\x00\x00\x00"),
		"a member cut short": two[:len(two)/2],
	} {
		_, _, err := unpack(t, join(one, behind), archive.TarBzip2, pack.Limits{})
		if (err == nil) != (behind == nil) {
			t.Errorf("%s instead of an end: %v", name, err)
		}
		if name == "a member cut short" {
			continue
		}
		packed, _, err := unpack(t, join(one, two, behind), archive.TarBzip2, pack.Limits{})
		if err != nil {
			t.Errorf("%s behind the end: %v", name, err)
		} else if diff := cmp.Diff([]string{"f a 1", "f b 2"}, files(t, packed)); diff != "" {
			t.Errorf("%s behind the end: -want +got:\n%s", name, diff)
		}
	}
}
