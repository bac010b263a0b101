package archive_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// xzBlock returns the header of a block: its flags and the following bytes, with padding and checksum.
func xzBlock(flags byte, rest ...byte) []byte {
	h := append([]byte{0, flags}, rest...)
	h = append(h, make([]byte, -len(h)&3)...)
	h[0] = byte(len(h) / 4)
	return binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(h))
}

// xzOf returns a stream without a check, with one block of LZMA2 data. unpadded and uncompressed are the sizes in the
// index.
func xzOf(header, data []byte, unpadded, uncompressed int) []byte {
	out := []byte("\xfd7zXZ\x00\x00\x00")
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out[6:8]))
	out = append(append(out, header...), data...)
	out = append(out, make([]byte, -len(out)&3)...)
	index := []byte{0, 1}
	index = binary.AppendUvarint(index, uint64(unpadded))
	index = binary.AppendUvarint(index, uint64(uncompressed))
	index = append(index, make([]byte, -len(index)&3)...)
	index = binary.LittleEndian.AppendUint32(index, crc32.ChecksumIEEE(index))
	footer := binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1))
	footer = append(footer, 0, 0)
	out = append(out, index...)
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(footer))
	return append(append(out, footer...), 'Y', 'Z')
}

// lzma2 returns content in uncompressed chunks.
func lzma2(content []byte) []byte {
	out := []byte{}
	for control := byte(1); len(content) > 0; control = 2 {
		n := min(len(content), 1<<16)
		out = binary.BigEndian.AppendUint16(append(out, control), uint16(n-1))
		out, content = append(out, content[:n]...), content[n:]
	}
	return append(out, 0)
}

func TestXz(t *testing.T) {
	content := tarOf(t, file("a", "1"))
	data := lzma2(content)
	good := xzOf(xzBlock(0, 0x21, 1, 8), data, 12+len(data), len(content))
	sized := func(compressed, uncompressed int) []byte {
		sizes := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(compressed)), uint64(uncompressed))
		h := xzBlock(0xc0, append(sizes, 0x21, 1, 8)...)
		return xzOf(h, data, len(h)+len(data), len(content))
	}
	for name, data := range map[string][]byte{
		"one block":        good,
		"sizes":            sized(len(data), len(content)),
		"padding":          join(good, make([]byte, 8)),
		"an empty stream":  join(good, make([]byte, 4), compressed(t, nil, toXz)),
		"three zeros":      join(good, make([]byte, 3)),
		"garbage":          join(good, []byte("garbage behind it")),
		"zeros in another": join(good, compressed(t, make([]byte, 512), toXz)),
	} {
		packed, _, err := unpack(t, data, archive.TarXz, pack.Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff([]string{"f a 1"}, files(t, packed)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	changed := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		if at < 0 {
			at += len(b)
		}
		b[at] = to
		return b
	}
	for _, tt := range []struct {
		name string
		data []byte
		why  string
	}{
		{"nothing", nil, "it is empty"},
		{"a page", []byte("<!DOCTYPE html><title>Sign in</title>"), "an HTML page instead of a tar.xz archive"},
		{"flags", changed(7, 1), "stream header"},
		{"block header", changed(16, 9), "block header"},
		{"4 GiB of dictionary", xzOf(xzBlock(0, 0x21, 1, 40), data, 0, 0), "asks for a dictionary of 4294967295 bytes"},
		{"96 MiB of dictionary", xzOf(xzBlock(0, 0x21, 1, 29), data, 0, 0), "asks for a dictionary of 100663296 bytes"},
		{"impossible dictionary", xzOf(xzBlock(0, 0x21, 1, 41), data, 0, 0), "block header"},
		{"reserved flags", xzOf(xzBlock(4, 0x21, 1, 8), data, 0, 0), "block header"},
		{"two filters", xzOf(xzBlock(1, 4, 0, 0x21, 1, 8), data, 0, 0), "another filter than LZMA2"},
		{"another filter", xzOf(xzBlock(0, 4, 0, 0), data, 0, 0), "another filter than LZMA2"},
		{"header padding", xzOf(xzBlock(0, 0x21, 1, 8, 0, 0, 1), data, 0, 0), "block header"},
		{"endless integer", xzOf(xzBlock(0x40, bytes.Repeat([]byte{0xff}, 10)...), data, 0, 0), "another filter than LZMA2"},
		{"compressed size", sized(len(data)-1, len(content)), "is not as long as it says"},
		{"smaller than its content", sized(len(data), len(content)-1), "is not as long as it says"},
		{"larger than its content", sized(len(data), len(content)+1), "is not as long as it says"},
		{"LZMA2 without an end", xzOf(xzBlock(0, 0x21, 1, 8), data[:len(data)-1], 0, 0), ""},
		{"LZMA2 without a beginning", xzOf(xzBlock(0, 0x21, 1, 8), []byte{2, 0, 0, 'a', 0}, 0, 0), "lzma"},
		{"index of another block", xzOf(xzBlock(0, 0x21, 1, 8), data, 12+len(data), len(content)+1), "does not describe the blocks"},
		{"index checksum", changed(-13, 1), "does not describe the blocks"},
		{"footer", changed(-1, 'X'), "does not describe the blocks"},
		{"footer size", changed(-8, 9), "does not describe the blocks"},
		{"wrong checksum", func() []byte {
			b := compressed(t, content, toXz)
			b[bytes.LastIndexByte(b[:len(b)-24], 0)+1] ^= 1
			return b
		}(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantLittle(t, 3, func() {
				_, _, err := unpack(t, tt.data, archive.TarXz, pack.Limits{})
				wantRefused(t, err, tt.why)
			})
		})
	}
}

// Blocks that each request much memory are stopped before they take a minute.
func TestXzDictionaries(t *testing.T) {
	one := xzOf(xzBlock(0, 0x21, 1, 28), lzma2([]byte(strings.Repeat("x", 512))), 12+516, 512)
	content := join(xzOf(xzBlock(0, 0x21, 1, 28), lzma2(block("a", tar.TypeReg, 1<<30)), 12+516, 512), bytes.Repeat(one, 1000))
	_, _, err := unpack(t, content, archive.TarXz, pack.Limits{})
	wantRefused(t, err, "has too many blocks")
}
