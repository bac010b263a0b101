//go:build linux

package hostile_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// atArchive is a module whose package an untrusted server serves as a file with a name.
func atArchive(t testing.TB, name string, serve http.HandlerFunc) module {
	return module{located("https://" + stranger(t, serve) + "/" + name).host(t), "case", "archive", "aws"}
}

func bytesOf(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.Write(data) }
}

// entry is one entry of a tar archive.
type entry struct {
	name string
	kind byte
	link string
	mode int64
	data string
}

func tarGz(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Size: int64(len(e.data)), Format: tar.FormatGNU}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, e.data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z.Close()
	return out.Bytes()
}

// link is a symbolic link.
func link(name, to string) entry { return entry{name: name, kind: tar.TypeSymlink, link: to} }

func zipOf(t testing.TB, change func(h *zip.FileHeader), names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if change != nil {
			change(h)
		}
		body, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			io.WriteString(body, "data")
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var plainFile = entry{name: "main.tf", data: "# good\n"}

func TestHostileArchivesAreRefused(t *testing.T) {
	p := startOwn(t, bounded)
	var many, laughs []entry
	for i := range 2001 {
		many = append(many, entry{name: fmt.Sprint("f", i)})
	}
	laughs = append(laughs, entry{name: "d0/f", data: "ha"})
	for level := 1; level <= 9; level++ {
		for i := range 10 {
			laughs = append(laughs, link(fmt.Sprintf("d%d/%d", level, i), fmt.Sprintf("../d%d", level-1)))
		}
	}
	good := tarGz(t, plainFile)
	for name, test := range map[string]struct {
		file string
		data []byte
	}{
		"dot-dot":           {"x.tar.gz", tarGz(t, plainFile, entry{name: "../evil"})},
		"dot-dot-inside":    {"x.tar.gz", tarGz(t, plainFile, entry{name: "a/../../evil"})},
		"backslash":         {"x.tar.gz", tarGz(t, plainFile, entry{name: `..\evil`})},
		"drive":             {"x.tar.gz", tarGz(t, plainFile, entry{name: "C:/evil"})},
		"link-circle":       {"x.tar.gz", tarGz(t, plainFile, link("a", "b"), link("b", "a"))},
		"link-through":      {"x.tar.gz", tarGz(t, plainFile, link("d", "."), entry{name: "d/evil"})},
		"link-laughs":       {"x.tar.gz", tarGz(t, laughs...)},
		"device":            {"x.tar.gz", tarGz(t, plainFile, entry{name: "null", kind: tar.TypeChar})},
		"block-device":      {"x.tar.gz", tarGz(t, plainFile, entry{name: "sda", kind: tar.TypeBlock})},
		"pipe":              {"x.tar.gz", tarGz(t, plainFile, entry{name: "pipe", kind: tar.TypeFifo})},
		"file-and-dir":      {"x.tar.gz", tarGz(t, plainFile, entry{name: "main.tf/x"})},
		"only-git":          {"x.tar.gz", tarGz(t, entry{name: ".git/config", data: "x"})},
		"git-short":         {"x.tar.gz", tarGz(t, plainFile, entry{name: "GIT~1/config"})},
		"long-name":         {"x.tar.gz", tarGz(t, plainFile, entry{name: strings.Repeat("a/", 2048) + "a"})},
		"long-part":         {"x.tar.gz", tarGz(t, plainFile, entry{name: strings.Repeat("a", 300)})},
		"control":           {"x.tar.gz", tarGz(t, plainFile, entry{name: "a\nb"})},
		"many":              {"x.tar.gz", tarGz(t, many...)},
		"empty":             {"x.tar.gz", tarGz(t)},
		"no-bytes":          {"x.tar.gz", nil},
		"no-bytes-zip":      {"x.zip", nil},
		"wrong-magic":       {"x.zip", good},
		"wrong-magic-gzip":  {"x.tar.gz", zipOf(t, nil, "main.tf")},
		"html":              {"x.zip", []byte("<html>log in first</html>")},
		"cut":               {"x.tar.gz", good[:len(good)-9]},
		"cut-zip":           {"x.zip", zipOf(t, nil, "main.tf")[:40]},
		"bit-flipped":       {"x.tar.gz", func() []byte { b := bytes.Clone(good); b[len(b)-6] ^= 1; return b }()},
		"zip-dot-dot":       {"x.zip", zipOf(t, nil, "main.tf", "../evil")},
		"zip-backslash":     {"x.zip", zipOf(t, nil, "main.tf", `..\evil`)},
		"zip-nul":           {"x.zip", zipOf(t, nil, "main.tf", "a\x00b")},
		"zip-link-out":      {"x.zip", zipOf(t, func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, "main.tf")},
		"zip-device":        {"x.zip", zipOf(t, func(h *zip.FileHeader) { h.SetMode(fs.ModeDevice | 0o666) }, "main.tf")},
		"zip-encrypted":     {"x.zip", zipOf(t, func(h *zip.FileHeader) { h.Flags |= 1 }, "main.tf")},
		"zip-two-names":     {"x.zip", bytes.Replace(zipOf(t, nil, "main.tf"), []byte("main.tf"), []byte("evil.tf"), 1)},
		"zip-overlapping":   {"x.zip", overlapping(t, 200)},
		"zip-only-a-folder": {"x.zip", zipOf(t, nil, "d/")},
	} {
		p.run(name, func(t *testing.T) {
			p.refuse(t, atArchive(t, test.file, bytesOf(test.data)), "1.0.0", `invalid`)
		})
	}
	p.run("disk", func(t *testing.T) {
		if size := sizeOf(t, p.data); size > 4<<20 {
			t.Errorf("the data directory has %d bytes after archives that were all refused", size)
		}
	})
}

// overlapping is a zip archive in which many names share the bytes of one file.
func overlapping(t testing.TB, n int) []byte {
	one := zipOf(t, nil, "main.tf")
	at := bytes.Index(one, []byte("PK\x01\x02"))
	end := bytes.Index(one, []byte("PK\x05\x06"))
	out := bytes.Clone(one[:at])
	for i := range n {
		record := bytes.Clone(one[at:end])
		copy(record[46:], fmt.Sprintf("f%06d", i))
		out = append(out, record...)
	}
	size := len(out) - at
	tail := bytes.Clone(one[end:])
	binary.LittleEndian.PutUint16(tail[8:], uint16(n))
	binary.LittleEndian.PutUint16(tail[10:], uint16(n))
	binary.LittleEndian.PutUint32(tail[12:], uint32(size))
	return append(out, tail...)
}

func sizeOf(t testing.TB, dir string) (size int64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return size
}

// Odd but harmless archives are accepted, and made harmless.
func TestOddArchivesAreMadeHarmless(t *testing.T) {
	p := startOwn(t, bounded)
	want := map[string]file{"main.tf": {"# good\n", false}}
	more := func(name string, f file) map[string]file {
		return map[string]file{"main.tf": {"# good\n", false}, name: f}
	}
	for name, test := range map[string]struct {
		file string
		data []byte
		want map[string]file
	}{
		"setuid":       {"x.tar.gz", tarGz(t, plainFile, entry{name: "s", mode: 0o6755, data: "s"}), more("s", file{"s", true})},
		"unreadable":   {"x.tar.gz", tarGz(t, plainFile, entry{name: "s", mode: 0o200, data: "s"}), more("s", file{"s", false})},
		"git-left-out": {"x.tar.gz", tarGz(t, plainFile, entry{name: ".git/hooks/post-checkout", mode: 0o755, data: "evil"}), want},
		"link":         {"x.tar.gz", tarGz(t, plainFile, link("l", "main.tf")), more("l", file{"# good\n", false})},
		"hard-link":    {"x.tar.gz", tarGz(t, plainFile, entry{name: "l", kind: tar.TypeLink, link: "main.tf"}), more("l", file{"# good\n", false})},
		"empty-dir":    {"x.tar.gz", tarGz(t, plainFile, entry{name: "d/", kind: tar.TypeDir}), want},
		"nested":       {"x.tar.gz", tarGz(t, plainFile, entry{name: "x.zip", data: "PK\x03\x04"}), more("x.zip", file{"PK\x03\x04", false})},
		"no-end":       {"x.tar.gz", withoutEnd(t), want},
		"absolute":     {"x.tar.gz", tarGz(t, plainFile, entry{name: "/etc/cron.d/evil", data: "x"}), more("etc/cron.d/evil", file{"x", false})},
		"zip-absolute": {"x.zip", zipOf(t, nil, "/main.tf"), map[string]file{"main.tf": {"data", false}}},
		"twice":        {"x.tar.gz", tarGz(t, entry{name: "main.tf", data: "first"}, plainFile), want},
		"zip-twice":    {"x.zip", zipOf(t, nil, "main.tf", "main.tf"), map[string]file{"main.tf": {"data", false}}},
		"two-archives": {"x.tar.gz", append(tarGz(t, plainFile), tarGz(t, entry{name: "evil"})...), want},
		"garbage":      {"x.tar.gz", append(tarGz(t, plainFile), "garbage"...), want},
		"case":         {"x.tar.gz", tarGz(t, plainFile, entry{name: "MAIN.tf", data: "x"}), more("MAIN.tf", file{"x", false})},
		"zip-case":     {"x.zip", zipOf(t, nil, "main.tf", "MAIN.tf"), map[string]file{"main.tf": {"data", false}, "MAIN.tf": {"data", false}}},

		// The content of the links' targets must not appear.
		"link-out":      {"x.tar.gz", tarGz(t, plainFile, link("l", "../../etc/passwd")), want},
		"link-absolute": {"x.tar.gz", tarGz(t, plainFile, link("l", "/etc/passwd")), want},
		"link-dangling": {"x.tar.gz", tarGz(t, plainFile, link("l", "nothing")), want},
		"link-to-git":   {"x.tar.gz", tarGz(t, plainFile, entry{name: ".git/config", data: secretCanary}, link("l", ".git/config")), want},
		"hard-link-out": {"x.tar.gz", tarGz(t, plainFile, entry{name: "h", kind: tar.TypeLink, link: "/etc/shadow"}), want},
	} {
		p.run(name, func(t *testing.T) {
			same(t, name, p.mustInstall(atArchive(t, test.file, bytesOf(test.data)), "1.0.0"), test.want)
		})
	}
}

// withoutEnd is an archive of plainFile without the two blocks that end one.
func withoutEnd(t testing.TB) []byte {
	z, err := gzip.NewReader(bytes.NewReader(tarGz(t, plainFile)))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(all[:1024])
	w.Close()
	return out.Bytes()
}

// A broken transfer is not stored, and a later whole transfer is.
func TestBrokenTransfersAreNotKept(t *testing.T) {
	p := startOwn(t, strings.Replace(bounded, "\nlog:", "\ncache: {missing: 1ms}\nlog:", 1))
	data := fetched(t, "https://src.test/archives/legal.tar.gz")
	want := goldenTree(t, "archives/legal.tar.gz/")
	hijacked := func(answer string) http.HandlerFunc { return raw(func(string) string { return answer }) }
	for name, broken := range map[string]http.HandlerFunc{
		"short":          hijacked(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(data)+1, data)),
		"no-length":      hijacked("HTTP/1.1 200 OK\r\n\r\n" + string(data)),
		"no-length-cut":  hijacked("HTTP/1.1 200 OK\r\n\r\n" + string(data[:len(data)/2])),
		"chunks-cut":     hijacked(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(data), data)),
		"part":           hijacked(fmt.Sprintf("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-%d/%d\r\nContent-Length: %d\r\n\r\n%s", len(data)-1, len(data), len(data), data)),
		"coded":          hijacked(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(data), data)),
		"unknown-coding": hijacked(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: %d\r\n\r\n%s", len(data), data)),
		"two-lengths":    hijacked(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Length: %d\r\n\r\n%s", len(data), len(data)-1, data)),
		"reset":          func(w http.ResponseWriter, r *http.Request) { w.Write(data[:100]); panic(http.ErrAbortHandler) },
		"no-content":     func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"accepted":       func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted); w.Write(data) },
		"partial-gzip":   bytesOf(data[:len(data)-4]),
	} {
		p.run(name, func(t *testing.T) {
			well := false
			m := atArchive(t, "x.tar.gz", func(w http.ResponseWriter, r *http.Request) {
				if well {
					w.Write(data)
				} else {
					broken(w, r)
				}
			})
			if a := p.install(m, "1.0.0"); a.Status < 400 || a.Status == http.StatusNotFound {
				t.Errorf("%d: %s", a.Status, a.Said())
			}
			well = true
			time.Sleep(20 * time.Millisecond) // longer than the failure is remembered
			same(t, name, p.mustInstall(m, "1.0.0"), want)
		})
	}
}
