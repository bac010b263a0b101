package archive_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// A part is one entry of a zip archive that is written byte by byte, so that each record may be wrong.
type part struct {
	name, content string
	method        uint16
	creator       byte
	mode          uint32 // Unix

	local      func(header []byte) // changes the header before the content
	central    func(header []byte) // changes the entry in the directory
	extra      []byte              // in the directory
	behind     []byte              // after the content
	sameOffset bool                // the same as the part before
}

const unix = 3

// zipOf writes an archive; end changes the record at its end.
func zipOf(t testing.TB, end func(record []byte), parts ...part) []byte {
	t.Helper()
	le := binary.LittleEndian
	var out, directory []byte
	offset := 0
	for _, p := range parts {
		packed := []byte(p.content)
		if p.method == zip.Deflate {
			packed = deflated(t, packed)
		}
		sizes := le.AppendUint32(nil, crc32.ChecksumIEEE([]byte(p.content)))
		sizes = le.AppendUint32(sizes, uint32(len(packed)))
		sizes = le.AppendUint32(sizes, uint32(len(p.content)))
		header := make([]byte, 30)
		copy(header, "PK\x03\x04\x14\x00")
		le.PutUint16(header[8:], p.method)
		copy(header[14:], sizes)
		le.PutUint16(header[26:], uint16(len(p.name)))
		header = append(header, p.name...)
		if p.local != nil {
			p.local(header)
		}
		if !p.sameOffset {
			offset = len(out)
		}
		out = append(append(append(out, header...), packed...), p.behind...)

		entry := make([]byte, 46)
		copy(entry, "PK\x01\x02\x14")
		entry[5] = p.creator
		copy(entry[6:], "\x14\x00")
		le.PutUint16(entry[10:], p.method)
		copy(entry[16:], sizes)
		le.PutUint16(entry[28:], uint16(len(p.name)))
		le.PutUint16(entry[30:], uint16(len(p.extra)))
		le.PutUint32(entry[38:], p.mode<<16)
		le.PutUint32(entry[42:], uint32(offset))
		entry = append(append(entry, p.name...), p.extra...)
		if p.central != nil {
			p.central(entry)
		}
		directory = append(directory, entry...)
	}
	record := make([]byte, 22)
	copy(record, "PK\x05\x06")
	le.PutUint16(record[8:], uint16(len(parts)))
	le.PutUint16(record[10:], uint16(len(parts)))
	le.PutUint32(record[12:], uint32(len(directory)))
	le.PutUint32(record[16:], uint32(len(out)))
	if end != nil {
		end(record)
	}
	return append(append(out, directory...), record...)
}

func deflated(t testing.TB, content []byte) []byte {
	t.Helper()
	return deflatedBy(t, content, (*flate.Writer).Close)
}

// deflatedBy deflates content, and calls end to end the stream.
func deflatedBy(t testing.TB, content []byte, end func(*flate.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := end(w); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// put returns a function that overwrites bytes of a record.
func put(at int, bytes ...byte) func([]byte) {
	return func(record []byte) { copy(record[at:], bytes) }
}

// both changes both headers of a part at the same field: flags, for example, are two bytes later in the directory.
func both(p part, at int, bytes ...byte) part {
	p.local, p.central = put(at, bytes...), put(at+2, bytes...)
	return p
}

func TestZip(t *testing.T) {
	var streamed bytes.Buffer
	zw := zip.NewWriter(&streamed)
	for name, content := range map[string]string{"a.tf": strings.Repeat("a", 1000), "d/": "", "d/b": ""} {
		w, err := zw.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.SetComment("by archive/zip"); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		zip  []byte
		want []string
	}{
		{"streamed, with a comment", streamed.Bytes(), []string{"f a.tf " + strings.Repeat("a", 1000), "f d/b "}},
		{"stored and deflated", zipOf(t, nil, part{name: "b", content: "22", method: 8}, part{name: "a", content: "1"}), []string{"f a 1", "f b 22"}},
		{"modes", zipOf(t, nil, part{name: "a", creator: unix, mode: 0o104755}, part{name: "b", creator: unix, mode: 0o100600}, part{name: "c", mode: 0o100755}, part{name: "d", creator: unix}), []string{"x a ", "f b ", "f c ", "f d "}},
		{"links", zipOf(t, nil, part{name: "l", content: "d/a", creator: unix, mode: 0o120777}, part{name: "d/a", content: "1"}, part{name: "e", content: "d", method: 8, creator: unix, mode: 0o120777}), []string{"f d/a 1", "f e/a 1", "f l 1"}},
		{"directories", zipOf(t, nil, part{name: "./", creator: unix, mode: 0o040755}, part{name: "d/", method: 8, creator: unix, mode: 0o040755}, part{name: "./d/a"}, part{name: "e/", creator: unix, mode: 0o100644}), []string{"f d/a "}},
		{"git left out", zipOf(t, nil, part{name: ".git/config", content: "secret", method: 8}, part{name: "a"}), []string{"f a "}},
		{"unknown extra", zipOf(t, nil, part{name: "a", extra: []byte("\x99\x99\x02\x00ab\x00")}), []string{"f a "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packed, _, err := unpack(t, tt.zip, archive.Zip, pack.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, files(t, packed)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Input that clients ignore is accepted.
func TestToleratedZip(t *testing.T) {
	a := part{name: "a", content: "1"}
	b := part{name: "b", content: strings.Repeat("2", 100), method: 8}
	good := zipOf(t, nil, a, b)
	behind := a
	behind.behind = []byte("PK\x03\x04 belongs to nothing")
	described := both(a, 6, 8)
	described.behind = append(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte("1"))), 1, 0, 0, 0, 1, 0, 0, 0, 'x')
	deflatedAndMore := both(b, 18, byte(len(deflated(t, []byte(b.content)))+3))
	deflatedAndMore.behind = []byte("abc")
	ab := []string{"f a 1", "f b " + b.content}
	for _, tt := range []struct {
		name string
		zip  []byte
		want []string
	}{
		{"something in front", join([]byte("MZ"), good), ab},
		{"garbage behind", join(good, []byte("x")), ab},
		{"something around", join(bytes.Repeat([]byte("#"), 1000), good, []byte("PK\x05\x06 is no end")), ab},
		{"two archives", join(zipOf(t, nil, part{name: "c"}), good), ab},
		{"comment that is an end", join(zipOf(t, put(20, 22), a), zipOf(t, nil, a)[len(zipOf(t, nil, a))-22:]), []string{"f a 1"}},
		{"gap", zipOf(t, nil, behind, b), ab},
		{"gap behind the deflated content", zipOf(t, nil, a, deflatedAndMore), ab},
		{"gap behind a descriptor", zipOf(t, nil, described, b), ab},
		{"absolute", zipOf(t, nil, part{name: "/d//a", content: "1"}), []string{"f d/a 1"}},
		{"twice", zipOf(t, nil, b, a, part{name: "a", content: "3"}), []string{"f a 3", "f b " + b.content}},
		{"links to nothing", zipOf(t, nil, a, b, part{name: "l", content: "../a", creator: unix, mode: 0o120777}), ab},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packed, _, err := unpack(t, tt.zip, archive.Zip, pack.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, files(t, packed)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			// The clients read with archive/zip, which finds as many entries.
			if r, err := zip.NewReader(bytes.NewReader(tt.zip), int64(len(tt.zip))); err != nil || len(r.File) < len(tt.want) {
				t.Errorf("archive/zip: %v", err)
			}
		})
	}
}

// manyTimes returns 65537 entries; readers of all entries use the last.
func manyTimes(a part) []part {
	parts := []part{a}
	for range 1 << 16 {
		parts = append(parts, part{name: a.name, content: "2", sameOffset: true})
	}
	return parts
}

func TestHostileZip(t *testing.T) {
	a := part{name: "a", content: "1"}
	hello := part{name: "h", content: strings.Repeat("hello ", 100), method: 8}
	good := zipOf(t, nil, a)
	link := part{name: "l", creator: unix, mode: 0o120777}
	linkTo := func(target string) part { p := link; p.content = target; return p }
	change := func(p part, f func(p *part)) part { f(&p); return p }
	for _, tt := range []struct {
		name string
		zip  []byte
		why  string
	}{
		{"nothing", nil, "it is empty"},
		{"a page", []byte("<!DOCTYPE html><title>Sign in</title>"), "an HTML page instead of a zip archive"},
		{"no entries", zipOf(t, nil), "it has no file"},
		{"cut short", good[:len(good)-1], "not a zip file, or not all of it"},
		{"cut in front", good[1:], "no header is where the directory says"},
		{"several parts", zipOf(t, put(4, 1), a), "in several parts"},
		{"fewer entries than there are", zipOf(t, put(8, 1, 0, 1, 0), a, part{name: "b"}), "the directory cannot be read: unexpected EOF"},
		{"more entries than there are", zipOf(t, put(8, 2, 0, 2, 0), a), "the directory cannot be read: unexpected EOF"},
		{"directory larger than the file", zipOf(t, put(12, 255, 255, 0, 0), a), "is not where its end says"},
		{"directory of 2 GiB", zipOf(t, put(12, 255, 255, 255, 127), a), "is not where its end says"},
		{"directory of 34 MB", zipOf(t, nil, slices.Repeat([]part{{name: "a", extra: make([]byte, 1<<16-1)}}, 520)...), "a directory of more than the 33554432 bytes"},
		{"directory elsewhere", zipOf(t, put(16, 3), a), "no header is where the directory says"},
		{"no entry in the directory", zipOf(t, nil, change(a, func(p *part) { p.central = put(0, 'X') })), "the directory cannot be read"},
		{"no header before the content", zipOf(t, nil, change(a, func(p *part) { p.local = put(0, 'X') })), "no header is where the directory says"},
		{"other name in the header", zipOf(t, nil, change(a, func(p *part) { p.local = put(30, 'b') })), "have not the same name"},
		{"other flags in the header", zipOf(t, nil, change(a, func(p *part) { p.local = put(6, 2) })), "have not the same flags"},
		{"other method in the header", zipOf(t, nil, change(a, func(p *part) { p.local = put(8, 8) })), "have not the same compression method"},
		{"other checksum in the header", zipOf(t, nil, change(a, func(p *part) { p.local = put(14, 9) })), "have not the same checksum and sizes"},
		{"other size in the header", zipOf(t, nil, change(a, func(p *part) { p.local = put(22, 9) })), "have not the same checksum and sizes"},
		{"wrong checksum", zipOf(t, nil, both(a, 14, 9)), "checksum error"},
		{"no checksum", zipOf(t, nil, both(a, 14, 0, 0, 0, 0)), "checksum error"},
		{"longer than it says", zipOf(t, nil, both(hello, 22, 9, 0)), "the content is not what its header says"},
		{"shorter than it says", zipOf(t, nil, both(hello, 22, 9, 9)), "the content is not what its header says"},
		{"stored in another size", zipOf(t, nil, both(a, 22, 9)), "the content is not what its header says"},
		{"content cut short", zipOf(t, nil, change(both(hello, 18, 5, 0), func(p *part) { p.behind = nil })), "unexpected EOF"},
		{"not deflated", zipOf(t, nil, both(part{name: "a", content: "\xff\xff\xff"}, 8, 8)), "flate"},
		{"gap in front", zipOf(t, nil, change(a, func(p *part) { p.central = put(42, 1) })), "no header is where the directory says"},
		{"hidden entry", zipOf(t, put(8, 1, 0, 1, 0), a, change(a, func(p *part) { p.name = "b" })), "the directory cannot be read: unexpected EOF"},
		{"entries behind the directory, counted modulo 65536", zipOf(t, func(r []byte) { copy(r[8:], "\x01\x00\x01\x00\x2f\x00\x00\x00") }, manyTimes(a)...), "more entries follow its directory"},
		{"offsets that are too large", join(make([]byte, 200), zipOf(t, nil, change(a, func(p *part) {
			p.central, p.extra = put(42, 255, 255, 255, 255), []byte("\x01\x00\x08\x00\xff\xff\xff\xff\xff\xff\xff\x7f")
		}), change(a, func(p *part) {
			p.name, p.central, p.extra = "b", put(42, 255, 255, 255, 255), []byte("\x01\x00\x08\x00\x9b\xff\xff\xff\xff\xff\xff\x7f")
		}))), "no header is where the directory says"},
		{"one content for two", zipOf(t, nil, a, change(a, func(p *part) { p.sameOffset = true })), "overlaps what follows it"},
		{"content over the directory", zipOf(t, nil, both(hello, 18, 100, 0)), "overlaps what follows it"},
		{"content over the next header", zipOf(t, nil, both(a, 18, 30, 0, 0, 0, 30), part{name: "b"}), "overlaps what follows it"},
		{"encrypted", zipOf(t, nil, both(a, 6, 1)), `"a": is encrypted`},
		{"strongly encrypted", zipOf(t, nil, both(a, 6, 0x40)), "is encrypted"},
		{"masked", zipOf(t, nil, both(a, 6, 0, 0x20)), "is encrypted"},
		{"patch", zipOf(t, nil, both(a, 6, 0x20)), "has the flags 0x20"},
		{"unknown flags", zipOf(t, nil, both(a, 6, 0, 0x80)), "has the flags 0x8000"},
		{"unknown method", zipOf(t, nil, both(a, 8, 12)), "unsupported compression algorithm"},
		{"no descriptor", zipOf(t, nil, both(a, 6, 8)), "the descriptor after it and the directory"},
		{"wrong descriptor", zipOf(t, nil, change(both(a, 6, 8), func(p *part) { p.behind = make([]byte, 12) })), "the descriptor after it and the directory"},
		{"descriptor of another size", zipOf(t, nil, change(both(a, 6, 8), func(p *part) {
			p.behind = append(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(p.content))), 9, 0, 0, 0, 9, 0, 0, 0)
		})), "the descriptor after it and the directory"},
		{"descriptor without its signature", zipOf(t, nil, change(both(a, 6, 8), func(p *part) { p.behind = make([]byte, 16) })), "the descriptor after it and the directory"},
		{"zip64 sizes without their field", zipOf(t, nil, change(a, func(p *part) { p.central = put(24, 255, 255, 255, 255) })), "have not the same checksum and sizes"},
		{"zip64 sizes cut short", zipOf(t, nil, change(a, func(p *part) { p.central, p.extra = put(20, 255, 255, 255, 255), []byte("\x01\x00\x04\x00aaaa") })), "the directory cannot be read"},
		{"impossible zip64 sizes", zipOf(t, nil, change(a, func(p *part) {
			p.central, p.extra = put(24, 255, 255, 255, 255), []byte("\x01\x00\x08\x00\xff\xff\xff\xff\xff\xff\xff\xff")
		})), "have not the same checksum and sizes"},
		{"other zip64 size in the header", zipOf(t, nil, change(a, func(p *part) {
			p.name = "a\x01\x00\x08\x00\x09\x00\x00\x00\x00\x00\x00\x00"
			p.local = func(h []byte) { copy(h[22:], "\xff\xff\xff\xff\x01\x00\x0c\x00") }
			p.central = func(e []byte) { copy(e[28:], "\x01\x00\x0c\x00") }
		})), "have not the same checksum and sizes"},
		{"zip64 sizes twice", zipOf(t, nil, change(a, func(p *part) { p.extra = []byte("\x01\x00\x00\x00\x01\x00\x00\x00") })), "zip64 sizes twice"},
		{"zip64 size that is a lie", zipOf(t, nil, change(hello, func(p *part) {
			p.central, p.extra = put(24, 255, 255, 255, 255), []byte("\x01\x00\x08\x00\x00\x00\x00\x00\x02\x00\x00\x00")
		})), "have not the same checksum and sizes"},
		{"zip64 end that is a lie", zipOf(t, func(r []byte) { copy(r, "PK\x05\x06") }, change(a, func(p *part) {
			p.extra = join([]byte("\x99\x99\x4c\x00"), []byte("PK\x06\x06"), make([]byte, 52), []byte("PK\x06\x07"), make([]byte, 16))
		})), "zip64 end is not where its locator says"},
		{"other name in Unicode", zipOf(t, nil, change(a, func(p *part) { p.extra = []byte("\x75\x70\x06\x00\x01\x00\x00\x00\x00b") })), "has another name in Unicode"},
		{"dot-dot", zipOf(t, nil, part{name: "../a"}), `the component ".."`},
		{"drive letter", zipOf(t, nil, part{name: "C:/a"}), "drive letter"},
		{"backslash", zipOf(t, nil, part{name: `d\a`}), "backslash"},
		{"NUL", zipOf(t, nil, part{name: "a\x00b"}), "control character"},
		{"file and directory", zipOf(t, nil, a, part{name: "a/b"}), "is a file and also a directory"},
		{"device", zipOf(t, nil, part{name: "a", creator: unix, mode: 0o020644}), "is a device"},
		{"named pipe", zipOf(t, nil, part{name: "a", creator: unix, mode: 0o010644}), "a named pipe"},
		{"socket", zipOf(t, nil, part{name: "a", creator: 19, mode: 0o140644}), "or a socket"},
		{"directory with content", zipOf(t, nil, part{name: "a/", content: "x"}), "is a directory, and has content"},
		{"file that is a directory", zipOf(t, nil, part{name: "a", creator: unix, mode: 0o040755}), "but not by its name"},
		{"file that is a directory on DOS", zipOf(t, nil, change(a, func(p *part) { p.central = put(38, 0x10) })), "but not by its name"},
		{"link to nothing", zipOf(t, nil, linkTo(""), a), "a symbolic link to nothing"},
		{"link of 1 MB", zipOf(t, nil, linkTo(strings.Repeat("a/../", 1<<18)+"a"), a), "a target of 4097 bytes"},
		{"writing through a link", zipOf(t, nil, linkTo("d"), part{name: "d/a"}, part{name: "l/a"}), "also a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := unpack(t, tt.zip, archive.Zip, pack.Limits{})
			wantRefused(t, err, tt.why)
		})
	}
}
