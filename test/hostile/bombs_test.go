//go:build linux

package hostile_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

const piece = 4 << 20

// bzip2Zeros is the output of bzip2 -9 for 100 MiB of zeros.
const bzip2Zeros = "QlpoOTFBWSZTWQ4J4t8BX45AAMAAAAggADCATUZCoCWpCoCXMUFZJlNZDgni3wFfjkAAwAAACCAAMIBNRkKgJakKgJcxQVkmU1mKltepAGQGRADAABAAAAggADDMBSmmKARbEoBF4u5IpwoSFdRTLWA="

// zeroBombs are small archives with a file of size MiB.
func zeroBombs(t testing.TB, size int) map[string]func() []byte {
	t.Helper()
	compress := func(data []byte, to func(w io.Writer) (io.WriteCloser, error)) []byte {
		var out bytes.Buffer
		w, err := to(&out)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	toGzip := func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestSpeed) }
	toXz := func(w io.Writer) (io.WriteCloser, error) { return xz.WriterConfig{DictCap: 1 << 16}.NewWriter(w) }
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: int64(size), Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, piece)
	bz, err := base64.StdEncoding.DecodeString(bzip2Zeros)
	if err != nil {
		t.Fatal(err)
	}
	// Deflated zeros that are not at the end can be repeated.
	var part bytes.Buffer
	w, err := flate.NewWriter(&part, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(zeros)
	w.Flush()
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	body, err := z.CreateRaw(&zip.FileHeader{Name: "zeros", Method: zip.Deflate, UncompressedSize64: uint64(size), CompressedSize64: uint64(part.Len() * (size / piece))})
	if err != nil {
		t.Fatal(err)
	}
	body.Write(bytes.Repeat(part.Bytes(), size/piece))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	lies := bytes.Clone(zipped.Bytes())
	says := func(n int) []byte { // in the form of zip, if it fits
		if size > 1<<32-1 {
			return binary.LittleEndian.AppendUint64(nil, uint64(n))
		}
		return binary.LittleEndian.AppendUint32(nil, uint32(n))
	}
	members := func(to func(w io.Writer) (io.WriteCloser, error)) func() []byte {
		return func() []byte {
			return append(compress(header.Bytes(), to), bytes.Repeat(compress(zeros, to), size/piece)...)
		}
	}
	return map[string]func() []byte{
		"x.tar.gz":   members(toGzip),
		"x.tar.xz":   members(toXz),
		"x.tar.bz2":  func() []byte { return bytes.Repeat(bz, size/(100<<20)) },
		"x.zip":      zipped.Bytes,
		"lies/x.zip": func() []byte { return bytes.ReplaceAll(lies, says(size), says(1000)) },
	}
}

// A bomb stops at the bounds, and a stopped download does not count as whole.
func TestBombs(t *testing.T) {
	received, size := 64, 10<<30
	few := shorter(t, "bombs of 256 MiB instead of 10 GiB, in gzip and zip only")
	if few {
		received, size = 4, 256<<20
	}
	p := startOwn(t, strings.Replace(bounded, "max_received: 8MiB", fmt.Sprintf("max_received: %dMiB", received), 1))
	for name, bomb := range zeroBombs(t, size) {
		if few && !strings.HasSuffix(name, "zip") && !strings.HasSuffix(name, "gz") {
			continue
		}
		p.run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			p.refuse(t, atArchive(t, name, bytesOf(bomb())), "1.0.0", `invalid`)
		})
	}
	good := tarGz(t, plainFile)
	flood := func(w http.ResponseWriter, r *http.Request) { endless(w, string(good), "\x00") }
	p.run("endless", func(t *testing.T) {
		p.refuse(t, atArchive(t, "x.tar.gz", flood), "1.0.0", `larger than allowed`)
	})
	p.run("one-byte-too-long", func(t *testing.T) {
		data := make([]byte, received<<20+1)
		copy(data, good)
		p.refuse(t, atArchive(t, "x.tar.gz", bytesOf(data)), "1.0.0", `larger than allowed`)
	})
	p.run("huge-length", func(t *testing.T) {
		p.refuse(t, atArchive(t, "x.tar.gz", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "9000000000000000000")
			w.Write(good)
		}), "1.0.0", `larger than allowed`)
	})
	p.run("unpacked-to-the-byte", func(t *testing.T) {
		body := strings.Repeat("x", 16<<20)
		if got := p.mustInstall(atArchive(t, "x.tar.gz", bytesOf(tarGz(t, entry{name: "f", data: body}))), "1.0.0"); got["f"].data != body {
			t.Errorf("the file has %d bytes", len(got["f"].data))
		}
		p.refuse(t, atArchive(t, "x.tar.gz", bytesOf(tarGz(t, entry{name: "f", data: body + "x"}))), "1.0.0", `invalid`)
	})
	p.run("disk", func(t *testing.T) {
		if size := sizeOf(t, p.data); size > 8<<20 {
			t.Errorf("the data directory has %d bytes", size)
		}
	})
	p.run("memory", func(t *testing.T) {
		mib := p.resident() >> 10
		t.Logf("modproxy took %d MiB of memory", mib)
		if mib > 200 && memoryIsBounded() {
			t.Errorf("modproxy took %d MiB of memory; want at most 200", mib)
		}
	})
}
