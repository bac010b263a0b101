package archive

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/pack"
)

// unpackZip reads a zip archive by archive/zip, as the clients do, unless other programs see other entries in it.
func unpackZip(in *input, size int64, _ Format, b *pack.Builder) error {
	entries, directory, err := readZipEnd(in, size, b.Limits().Entries)
	if err != nil {
		return err
	}
	source := &zipSource{
		ReaderAt:    io.NewSectionReader(in, 0, size),
		inDirectory: true, bytes: maxZipDirectory, entries: entries + maxReadTwice,
	}
	r, err := zip.NewReader(source, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // package pack checks the names
		return fmt.Errorf("the directory cannot be read: %w", err)
	}
	if len(r.File) != entries {
		return refuse("its directory has %d entries, but its end says %d", len(r.File), entries)
	}
	source.inDirectory = false
	if err := checkZipEntries(r.File, source, directory); err != nil {
		return err
	}
	for _, f := range r.File {
		if err := unpackZipEntry(f, in, b); err != nil {
			return err
		}
	}
	return nil
}

// checkZipEntries checks every header. An entry must end before the next one and the directory.
func checkZipEntries(files []*zip.File, source *zipSource, directory int64) error {
	type place struct {
		f            *zip.File
		header, data int64
	}
	places := make([]place, 0, len(files))
	for _, f := range files {
		data, err := f.DataOffset()
		if err != nil {
			return fmt.Errorf("%.200q: no header is where the directory says: %w", f.Name, err)
		}
		places = append(places, place{f, source.last, data}) // DataOffset has read the header
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.header, b.header) })
	for i, p := range places {
		next := directory
		if i+1 < len(places) {
			next = places[i+1].header
		}
		if p.data > next || p.f.CompressedSize64 > uint64(next-p.data) {
			return refuse("%.200q: overlaps what follows it", p.f.Name)
		}
		if err := checkZipHeader(p.f, source, p.header, p.data); err != nil {
			return err
		}
		if err := checkZipDescriptor(p.f, source, p.data+int64(p.f.CompressedSize64), next); err != nil {
			return err
		}
	}
	return nil
}

func unpackZipEntry(f *zip.File, in *input, b *pack.Builder) error {
	content, err := f.Open()
	if err != nil {
		return fmt.Errorf("%.200q: %w", f.Name, err)
	}
	defer content.Close()
	r := &zipContent{f: f, r: &expanded{r: content, in: in}}
	name, mode := cleanName(f.Name), f.Mode()
	switch kind := mode.Type(); {
	case kind == fs.ModeDir && !strings.HasSuffix(f.Name, "/"):
		return refuse("%.200q: is a directory by its attributes, but not by its name", f.Name)
	case kind == fs.ModeDir && f.UncompressedSize64 != 0:
		return refuse("%.200q: is a directory, and has content", f.Name)
	case kind == fs.ModeDir && name == "":
		return nil
	case kind == fs.ModeDir:
		return b.Dir(name)
	case kind == fs.ModeSymlink:
		var target []byte
		if target, err = io.ReadAll(io.LimitReader(r, maxTarget+1)); err == nil {
			err = b.Link(name, string(target))
		}
	case kind == 0:
		err = b.File(name, mode&0o100 != 0, r)
	default:
		return refuse("%.200q: is a device, a named pipe or a socket", f.Name)
	}
	if err == nil { // what the builder did not ask for is still checked
		_, err = io.Copy(io.Discard, r)
	}
	return err
}

// A zipContent is the content of f, of which archive/zip leaves a checksum of zero unchecked.
type zipContent struct {
	f   *zip.File
	r   *expanded
	crc uint32
}

func (c *zipContent) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.f.CRC32 == 0 {
		c.crc = crc32.Update(c.crc, crc32.IEEETable, p[:n])
	}
	switch {
	case err == io.EOF && c.crc != 0:
		return n, c.r.in.stop(refuse("%.200q: %w", c.f.Name, zip.ErrChecksum))
	case err != nil && err != io.EOF:
		return n, c.r.in.stop(refuse("%.200q: the content is not what its header says: %w", c.f.Name, err))
	}
	return n, err
}

// Records of zip (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT).
const (
	descriptorSignature   = "PK\x07\x08"
	entrySignature        = "PK\x01\x02"
	endSignature          = "PK\x05\x06"
	end64Signature        = "PK\x06\x06"
	end64LocatorSignature = "PK\x06\x07"

	localLength        = 30
	endLength          = 22
	end64Length        = 56
	end64LocatorLength = 20

	maxZipDirectory = 32 << 20 // bytes: names take memory
	maxReadTwice    = 4096     // more entries than fit into the 66 KiB in which archive/zip looks for the end first

	flagEncrypted  = 1<<0 | 1<<6 | 1<<13 // encrypted, strongly, with masked headers
	flagDescriptor = 1 << 3
	knownFlags     = 1<<1 | 1<<2 | flagDescriptor | 1<<11 // 1 and 2: how it was deflated, 11: UTF-8

	extraZip64       = 0x0001
	extraUnicodePath = 0x7075

	max16, max32 = 1<<16 - 1, 1<<32 - 1
)

var little = binary.LittleEndian

// A zipSource bounds the directory that archive/zip reads, for which that goes on for as long as entries follow.
type zipSource struct {
	io.ReaderAt
	last int64 // where the last read began

	inDirectory    bool
	bytes, entries int // that may still be read
}

func (s *zipSource) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, off)
	s.last = off
	if s.inDirectory {
		s.bytes -= n
		s.entries -= bytes.Count(p[:n], []byte(entrySignature))
		if s.bytes < 0 {
			return 0, refuse("a directory of more than the %d bytes that are allowed", maxZipDirectory)
		}
		if s.entries < 0 {
			return 0, refuse("more entries follow its directory")
		}
	}
	return n, err
}

// readZipEnd reads the last end that is there, as archive/zip does, whatever follows it. It returns how many entries
// there are, and where their directory begins, or later.
func readZipEnd(in *input, size int64, maxEntries int) (int, int64, error) {
	tail := make([]byte, min(size, 65<<10))
	if _, err := in.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, 0, err
	}
	i := bytes.LastIndex(tail[:max(0, len(tail)-endLength+len(endSignature))], []byte(endSignature))
	if i < 0 {
		return 0, 0, refuse("not a zip file, or not all of it")
	}
	at, end := size-int64(len(tail)-i), tail[i:]
	entries, length, offset := uint64(little.Uint16(end[10:])), uint64(little.Uint32(end[12:])), uint64(little.Uint32(end[16:]))
	parts := little.Uint32(end[4:]) != 0 || !bytes.Equal(end[8:10], end[10:12])
	if before := at - end64LocatorLength - end64Length; before >= 0 {
		record := make([]byte, end64Length+end64LocatorLength)
		if _, err := in.ReadAt(record, before); err != nil {
			return 0, 0, err
		}
		if locator := record[end64Length:]; string(locator[:4]) == end64LocatorSignature {
			entries64, length64, offset64 := little.Uint64(record[32:]), little.Uint64(record[40:]), little.Uint64(record[48:])
			if string(record[:4]) != end64Signature || little.Uint64(locator[8:]) != uint64(before) {
				return 0, 0, refuse("its zip64 end is not where its locator says")
			}
			if entries != entries64 && entries != max16 || length != length64 && length != max32 || offset != offset64 && offset != max32 {
				return 0, 0, refuse("its zip64 end contradicts its end")
			}
			parts = parts || little.Uint64(record[16:]) != 0 || !bytes.Equal(record[24:32], record[32:40])
			at, entries, length = before, entries64, length64
		}
	}
	switch {
	case parts:
		return 0, 0, refuse("part of a zip file in several parts")
	case entries > uint64(maxEntries):
		return 0, 0, refuse("%d entries, more than the %d that are allowed", entries, maxEntries)
	case length > uint64(at):
		return 0, 0, refuse("its directory is not where its end says")
	}
	return int(entries), at - int64(length), nil
}

// checkZipHeader compares an entry of the directory with the one before its content, between header and data.
func checkZipHeader(f *zip.File, in io.ReaderAt, header, data int64) error {
	differs := func(what string) error {
		return refuse("%.200q: the header before it and the directory have not the same %s", f.Name, what)
	}
	p := make([]byte, data-header)
	if _, err := in.ReadAt(p, header); err != nil {
		return err
	}
	name := int(little.Uint16(p[26:]))
	switch {
	case f.Flags&flagEncrypted != 0:
		return refuse("%.200q: is encrypted", f.Name)
	case f.Flags&^knownFlags != 0:
		return refuse("%.200q: has the flags %#x", f.Name, f.Flags)
	case string(p[localLength:localLength+name]) != f.Name:
		return differs("name")
	case little.Uint16(p[6:]) != f.Flags:
		return differs("flags")
	case little.Uint16(p[8:]) != f.Method:
		return differs("compression method")
	}
	if _, err := checkZipExtra(f.Extra, f.Name); err != nil {
		return err
	}
	zip64, err := checkZipExtra(p[localLength+name:], f.Name)
	if err != nil {
		return err
	}
	packed, size := uint64(little.Uint32(p[18:])), uint64(little.Uint32(p[22:]))
	for _, n := range []*uint64{&size, &packed} {
		if *n == max32 && len(zip64) >= 8 {
			*n, zip64 = little.Uint64(zip64), zip64[8:]
		}
	}
	same := func(local, directory uint64) bool {
		return local == directory || local == 0 && f.Flags&flagDescriptor != 0 // the descriptor says it
	}
	if !same(uint64(little.Uint32(p[14:])), uint64(f.CRC32)) || !same(packed, f.CompressedSize64) || !same(size, f.UncompressedSize64) {
		return differs("checksum and sizes")
	}
	return nil
}

// checkZipDescriptor compares an entry of the directory with what may follow its content, between at and next: the
// checksum and the sizes, with or without a signature, in 32 or 64 bits each. archive/zip does not heed the sizes.
func checkZipDescriptor(f *zip.File, in io.ReaderAt, at, next int64) error {
	if f.Flags&flagDescriptor == 0 {
		return nil
	}
	p := make([]byte, min(24, next-at))
	if _, err := in.ReadAt(p, at); err != nil {
		return err
	}
	same := func(p []byte) bool {
		return len(p) >= 12 && little.Uint32(p) == f.CRC32 &&
			uint64(little.Uint32(p[4:])) == f.CompressedSize64 && uint64(little.Uint32(p[8:])) == f.UncompressedSize64 ||
			len(p) >= 20 && little.Uint32(p) == f.CRC32 &&
				little.Uint64(p[4:]) == f.CompressedSize64 && little.Uint64(p[12:]) == f.UncompressedSize64
	}
	if same(p) || same(bytes.TrimPrefix(p, []byte(descriptorSignature))) {
		return nil
	}
	return refuse("%.200q: the descriptor after it and the directory have not the same checksum and sizes", f.Name)
}

// checkZipExtra refuses a second name and second sizes in extra fields, which not all readers heed. It returns the
// field with sizes of 64 bits.
func checkZipExtra(extra []byte, name string) (zip64 []byte, err error) {
	for len(extra) >= 4 {
		id, n := little.Uint16(extra), int(little.Uint16(extra[2:]))
		if n > len(extra)-4 {
			break // padding, or broken: no other field can be in it
		}
		field := extra[4 : 4+n]
		switch {
		case id == extraZip64 && zip64 != nil:
			return nil, refuse("%.200q: has zip64 sizes twice", name)
		case id == extraZip64:
			zip64 = field
		case id == extraUnicodePath && (n < 5 || string(field[5:]) != name):
			return nil, refuse("%.200q: has another name in Unicode", name)
		}
		extra = extra[4+n:]
	}
	return zip64, nil
}
