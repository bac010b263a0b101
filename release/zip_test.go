package release

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/modproxy/modproxy"
)

const localHeader = 30 // bytes before the name of an entry

const program = "terraform-provider-toy_v1.0.0"

// unzip writes data, and unpacks it into a directory. It returns the sums that the clients' library computes of both.
func unzip(t testing.TB, data []byte) (archive, directory string) {
	t.Helper()
	file, dir := filepath.Join(t.TempDir(), "x.zip"), t.TempDir()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File { // an fs.FS has no names that are not UTF-8
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "x", f.Name)
		text, err := io.ReadAll(content)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(name), 0o700)
		}
		if err == nil && !strings.HasSuffix(f.Name, "/") {
			err = os.WriteFile(name, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if archive, err = dirhash.HashZip(file, dirhash.Hash1); err == nil {
		directory, err = dirhash.HashDir(filepath.Join(dir, "x"), "", dirhash.Hash1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return archive, directory
}

func TestCheckZip(t *testing.T) {
	store := func(h *zip.FileHeader) { h.Method = zip.Store }
	for _, c := range []struct {
		name    string
		entries []zipped
		same    bool
	}{
		{"a program", []zipped{{name: program, content: "#!/bin/sh\n"}}, true},
		{"named as short as can be", []zipped{{name: "terraform-provider-toy"}}, true},
		{"for Windows", []zipped{{name: "terraform-provider-toy.exe", content: "x"}}, true},
		{"stored", []zipped{{name: program, content: "x", change: store}}, true},
		{"a tree", []zipped{{name: "doc/a", content: "a"}, {name: program, content: "b"}, {name: "doc.md"}, {name: "doc-b", content: "c"}}, true},
		{"names that are not UTF-8", []zipped{{name: "caf\xe9", content: "a"}, {name: program, content: "b"}, {name: "caf\xe8/x"}}, true},
		{"directories", []zipped{{name: program, content: "b"}, {name: "doc/"}, {name: "doc/a", content: "a"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := zipOf(t, c.entries...)
			facts, err := CheckZip(bytes.NewReader(data), int64(len(data)), "toy", ZipLimits{})
			if err != nil {
				t.Fatal(err)
			}
			archive, directory := unzip(t, data)
			if string(facts.Sum) != archive || string(facts.Dir) != directory || (facts.Sum == facts.Dir) != c.same {
				t.Errorf("%+v, want %s and %s", facts, archive, directory)
			}
			var size int64
			for _, e := range c.entries {
				size += int64(len(e.content))
			}
			if facts.Bytes != size {
				t.Errorf("%d bytes, want %d", facts.Bytes, size)
			}
		})
	}
}

func TestCheckZipRefuses(t *testing.T) {
	it := zipped{name: program, content: "x"}
	raw := func(h func(*zip.FileHeader)) zipped { return zipped{name: "x", change: h} }
	named := func(name string) []zipped { return []zipped{it, {name: name}} }
	many := []zipped{it}
	for i := range 10 {
		many = append(many, zipped{name: fmt.Sprint(i)})
	}
	for _, c := range []struct {
		name    string
		entries []zipped
		edit    func([]byte) []byte
		limits  ZipLimits
		err     string
	}{
		{name: "no program", entries: []zipped{{name: "terraform-provider-other"}}, err: "terraform-provider-toy"},
		{name: "a longer type", entries: []zipped{{name: "terraform-provider-toys"}}, err: "terraform-provider-toy"},
		{name: "below the top", entries: []zipped{{name: "bin/" + program}}, err: "terraform-provider-toy"},
		{name: "a directory", entries: []zipped{{name: program + "/"}}, err: "terraform-provider-toy"},
		{name: "above the top", entries: named("../x"), err: `".."`},
		{name: "absolute", entries: named("/x"), err: "absolute"},
		{name: "a backslash", entries: named(`a\x`), err: "backslash"},
		{name: "a drive", entries: named(`c:x`), err: "drive"},
		{name: "a control character", entries: named("a\nb"), err: "control character"},
		{name: "an empty component", entries: named("a//b"), err: "empty component"},
		{name: "no name", entries: named("/"), err: "without a name"},
		{name: "a long name", entries: named(strings.Repeat("x/", maxName/2) + "x"), err: "name of more"},
		{name: "twice", entries: named(program), err: "twice"},
		{name: "twice, as a directory", entries: named(program + "/"), err: "twice"},
		{name: "below a file", entries: named(program + "/x"), err: "file and a directory"},
		{name: "a link", entries: []zipped{it, raw(func(h *zip.FileHeader) { h.SetMode(os.ModeSymlink) })}, err: "neither"},
		{name: "encrypted", entries: []zipped{it, raw(func(h *zip.FileHeader) { h.Flags |= 1 })}, err: "encrypted"},
		{name: "entries", entries: many, limits: ZipLimits{Entries: 10}, err: "11 entries"},
		{name: "bytes", entries: []zipped{{name: program, content: "xyz"}}, limits: ZipLimits{Bytes: 2}, err: "the 2 bytes"},
		{name: "ratio", entries: []zipped{{name: program, content: strings.Repeat("\x00", 2*freeBytes)}}, err: "more content"},
		{name: "ratio of all", entries: []zipped{
			{name: program, content: strings.Repeat("\x00", freeBytes)}, {name: "x", content: "x"},
		}, err: `"x": more content`},
		{name: "damage", entries: []zipped{{name: program, content: "content", change: func(h *zip.FileHeader) { h.Method = zip.Store }}},
			edit: func(b []byte) []byte { return bytes.Replace(b, []byte("content"), []byte("Content"), 1) }, err: "checksum"},
		{name: "cut short", entries: []zipped{it}, edit: func(b []byte) []byte { return b[:len(b)-1] }, err: "not a valid zip"},
		{name: "not a zip", entries: []zipped{it}, edit: func(b []byte) []byte { return []byte("<html>") }, err: "not a valid zip"},
		{name: "empty", entries: []zipped{it}, edit: func(b []byte) []byte { return nil }, err: "not a valid zip"},
		{name: "another name in the header", entries: []zipped{it}, edit: put(localHeader, "x"), err: "the same name"},
		{name: "another method in the header", entries: []zipped{it}, edit: put(8, "\x00"), err: "the same compression method"},
		{name: "other flags in the header", entries: []zipped{it}, edit: put(6, "\x00"), err: "the same flags"},
		{name: "another size in the header", entries: []zipped{it}, edit: put(22, "\x02"), err: "the same checksum and sizes"},
		{name: "another size behind the content", entries: []zipped{it}, edit: func(b []byte) []byte {
			return put(bytes.Index(b, []byte("PK\x07\x08"))+12, "\x02")(b)
		}, err: "the descriptor after it"},
		{name: "another name in Unicode", entries: []zipped{it, raw(func(h *zip.FileHeader) {
			h.Extra = []byte("\x75\x70\x06\x00\x01\x00\x00\x00\x00b")
		})}, err: "another name in Unicode"},
		{name: "fewer entries at the end", entries: named("x"), edit: func(b []byte) []byte {
			return put(len(b)-14, "\x01\x00\x01\x00")(b)
		}, err: "unexpected EOF"},
		{name: "content over the directory", entries: []zipped{it}, edit: func(b []byte) []byte {
			return put(bytes.Index(b, []byte("PK\x01\x02"))+20, "\x60")(b)
		}, err: "overlaps"},
		{name: "an end of zip64", entries: []zipped{it}, edit: withZip64End, err: "zip64"},
		{name: "a huge directory", entries: []zipped{it}, edit: func(b []byte) []byte {
			end := bytes.LastIndex(b, []byte("PK\x05\x06"))
			directory := b[binary.LittleEndian.Uint32(b[end+16:]):end]
			all := append(b[:end:end], bytes.Repeat(directory, maxDirectory/len(directory)+1)...)
			return append(all, b[end:]...)
		}, err: "its directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := zipOf(t, c.entries...)
			if c.edit != nil {
				data = c.edit(data)
			}
			facts, err := CheckZip(bytes.NewReader(data), int64(len(data)), "toy", c.limits)
			if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v, %v: want %q", facts, err, c.err)
			}
		})
	}
}

// put returns a function that overwrites bytes of an archive.
func put(at int, what string) func([]byte) []byte {
	return func(b []byte) []byte {
		copy(b[at:], what)
		return b
	}
}

// withZip64End announces so many entries that archive/zip would allocate much memory.
func withZip64End(b []byte) []byte {
	end := len(b) - 22
	record := make([]byte, 56+20)
	copy(record, end64Signature)
	binary.LittleEndian.PutUint64(record[4:], 44)
	binary.LittleEndian.PutUint64(record[32:], 1<<30)
	copy(record[56:], "PK\x06\x07")
	binary.LittleEndian.PutUint64(record[64:], uint64(end))
	binary.LittleEndian.PutUint32(record[72:], 1)
	last := bytes.Clone(b[end:])
	copy(last[8:], "\xff\xff\xff\xff")
	return append(append(b[:end:end], record...), last...)
}

// Entries that share content unpack to more bytes than the archive has.
func TestCheckZipOverlap(t *testing.T) {
	data := zipOf(t, zipped{name: program, content: "1"}, zipped{name: "terraform-provider-toy_v1.0.1", content: "1"})
	second := bytes.LastIndex(data, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(data[second+42:], 0) // the offset of its header: the first entry has a name of the same length
	_, err := CheckZip(bytes.NewReader(data), int64(len(data)), "toy", ZipLimits{})
	if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "overlaps") {
		t.Errorf("error %v", err)
	}
}

// A checksum of zero is checked like any other.
func TestCheckZipZeroChecksum(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	to, err := w.CreateRaw(&zip.FileHeader{Name: program, Method: zip.Store, CompressedSize64: 1, UncompressedSize64: 1})
	if err == nil {
		_, err = to.Write([]byte("x"))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	_, err = CheckZip(bytes.NewReader(b.Bytes()), int64(b.Len()), "toy", ZipLimits{})
	if crc32.ChecksumIEEE([]byte("x")) == 0 || !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

// An error of the disk is not an error of the archive.
func TestCheckZipDiskError(t *testing.T) {
	data := zipOf(t, zipped{name: program, content: strings.Repeat("x", 4096), change: func(h *zip.FileHeader) { h.Method = zip.Store }})
	broken := errors.New("the disk")
	for fail := range int64(3) {
		_, err := CheckZip(&failing{bytes.NewReader(data), fail, broken}, int64(len(data)), "toy", ZipLimits{})
		if !errors.Is(err, broken) || errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("error %v", err)
		}
	}
}

// failing fails after that many reads.
type failing struct {
	io.ReaderAt
	left int64
	err  error
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(p, off)
}

func FuzzCheckZip(f *testing.F) {
	f.Add(zipOf(f, zipped{name: program, content: "x"}))
	f.Add(zipOf(f, zipped{name: program, content: "x"}, zipped{name: "a/"}, zipped{name: "a/b", content: strings.Repeat("x", 1000)}))
	f.Add(withZip64End(zipOf(f, zipped{name: program, content: "x"})))
	f.Add(put(localHeader, "x")(zipOf(f, zipped{name: program, content: "x"})))
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := CheckZip(bytes.NewReader(data), int64(len(data)), "toy", ZipLimits{})
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if archive, directory := unzip(t, data); string(facts.Sum) != archive || string(facts.Dir) != directory {
			t.Fatalf("%+v, want %s and %s", facts, archive, directory)
		}
	})
}

func BenchmarkCheckZip(b *testing.B) {
	content := make([]byte, 64<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(random.IntN(24)) // about as random as a program
	}
	data := zipOf(b, zipped{name: program, content: string(content)})
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if _, err := CheckZip(bytes.NewReader(data), int64(len(data)), "toy", ZipLimits{}); err != nil {
			b.Fatal(err)
		}
	}
}
