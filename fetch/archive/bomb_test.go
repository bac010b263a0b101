package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/ulikunitz/xz"

	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

const (
	ten  = 10 << 30
	unit = 4 << 20 // zeros, compressed once, that a bomb repeats
)

// bigHeader returns the tar header of a file of 10 GiB.
func bigHeader(t testing.TB, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: ten, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func compressed(t testing.TB, content []byte, to func(w io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := to(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func toGzip(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestSpeed) }

func toXz(w io.Writer) (io.WriteCloser, error) {
	return xz.WriterConfig{DictCap: 1 << 16}.NewWriter(w)
}

// bzip2Zeros is the output of bzip2 -9 for 100 MiB of zeros.
const bzip2Zeros = "QlpoOTFBWSZTWQ4J4t8BX45AAMAAAAggADCATUZCoCWpCoCXMUFZJlNZDgni3wFfjkAAwAAACCAAMIBNRkKgJakKgJcxQVkmU1mKltepAGQGRADAABAAAAggADDMBSmmKARbEoBF4u5IpwoSFdRTLWA="

// bomb is an archive, and the reason for its refusal.
type bomb struct {
	data   []byte
	format archive.Format
	why    string
}

var made map[string]bomb

// bombs returns archives of ten gigabytes. They are made once.
func bombs(t testing.TB) map[string]bomb {
	if made != nil {
		return made
	}
	zeros := make([]byte, unit)
	bz, err := base64.StdEncoding.DecodeString(bzip2Zeros)
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat(deflatedBy(t, zeros, (*flate.Writer).Flush), ten/unit) // without an end, so that more may follow
	content = append(content, deflated(t, nil)...)
	zipBomb := func(says uint32) []byte {
		return zipOf(t, nil, func() part {
			p := part{name: "zeros", content: string(content)} // as if stored, but marked as deflated
			size := binary.LittleEndian.AppendUint32(nil, says)
			p.local = func(h []byte) { h[8] = 8; copy(h[22:], size) }
			p.central = func(h []byte) { h[10] = 8; copy(h[24:], size) }
			return p
		}())
	}
	const (
		more   = "bytes that are allowed for its size"
		larger = "more content than the 12582912 bytes"
	)
	gz, x := compressed(t, zeros, toGzip), compressed(t, zeros[:unit/8], toXz) // xz takes longest
	made = map[string]bomb{
		"gzip":          {join(compressed(t, bigHeader(t, "zeros"), toGzip), bytes.Repeat(gz, ten/unit)), archive.TarGzip, larger},
		"gzip left out": {join(compressed(t, bigHeader(t, ".git/zeros"), toGzip), bytes.Repeat(gz, ten/unit)), archive.TarGzip, more},
		"gzip behind":   {gzipped(t, join(tarOf(t, file("a", "")), make([]byte, 16<<20))), archive.TarGzip, more},
		"xz":            {join(compressed(t, bigHeader(t, "zeros"), toXz), bytes.Repeat(x, ten/(unit/8))), archive.TarXz, larger},
		"bzip2":         {bytes.Repeat(bz, ten/(100<<20)), archive.TarBzip2, more},
		"zip":           {zipBomb(1<<32 - 2), archive.Zip, larger},
		"zip that lies": {zipBomb(1), archive.Zip, "the content is not what its header says"},
	}
	return made
}

// wantLittle checks that f allocates at most mib MiB in total.
func wantLittle(t *testing.T, mib uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if all := after.TotalAlloc - before.TotalAlloc; all > mib<<20 {
		t.Errorf("took %d MiB of memory, want no more than %d", all>>20, mib)
	}
}

// Archives of ten gigabytes stop at the limit, with little memory.
func TestBombs(t *testing.T) {
	for name, bomb := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			wantLittle(t, 8, func() {
				_, _, err := unpack(t, bomb.data, bomb.format, pack.Limits{Bytes: 12 << 20, Entries: 1000})
				wantRefused(t, err, bomb.why)
			})
		})
	}
}
