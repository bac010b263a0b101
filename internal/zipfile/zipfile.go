// Package zipfile detects zip archives in which different programs see different entries.
//
// The reviewed files of such an archive could differ from the installed ones. Call [ReadEnd] before zip.NewReader, and
// [Source.Check] after it:
//
//	entries, directory, err := zipfile.ReadEnd(file, size, maxEntries)
//	source := &zipfile.Source{ReaderAt: file}
//	r, err := zip.NewReader(source, size)
//	files, err := source.Check(r.File, directory)
//
// Invariant: an archive is accepted only if its local headers, descriptors and extra fields agree with its directory,
// and its entries share no bytes. Errors name the contradiction, or are those of the file.
//
// The format is https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
package zipfile

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Source is the input of archive/zip for an archive. It is not safe for concurrent use.
type Source struct {
	io.ReaderAt
	last int64 // the offset of the last read
}

// ReadAt implements [io.ReaderAt].
func (s *Source) ReadAt(p []byte, off int64) (int, error) {
	s.last = off
	return s.ReaderAt.ReadAt(p, off)
}

// readFull fills p.
func readFull(in io.ReaderAt, p []byte, off int64) error {
	n, err := in.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Check checks every header of the files that archive/zip found in s, and returns the files in the order of their
// content. An entry must end before the next one and before the directory.
func (s *Source) Check(files []*zip.File, directory int64) ([]*zip.File, error) {
	type place struct {
		f            *zip.File
		header, data int64
	}
	places := make([]place, 0, len(files))
	for _, f := range files {
		data, err := f.DataOffset()
		if err != nil {
			return nil, fmt.Errorf("%.200q: no header is where the directory says: %w", f.Name, err)
		}
		places = append(places, place{f, s.last, data}) // DataOffset has read the header
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.header, b.header) })
	ordered := make([]*zip.File, 0, len(files))
	for i, p := range places {
		next := directory
		if i+1 < len(places) {
			next = places[i+1].header
		}
		if p.data > next || p.f.CompressedSize64 > uint64(next-p.data) {
			return nil, fmt.Errorf("%.200q: overlaps what follows it", p.f.Name)
		}
		if err := checkHeader(p.f, s, p.header, p.data); err != nil {
			return nil, err
		}
		if err := checkDescriptor(p.f, s, p.data+int64(p.f.CompressedSize64), next); err != nil {
			return nil, err
		}
		ordered = append(ordered, p.f)
	}
	return ordered, nil
}

// Records of zip (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT).
const (
	descriptorSignature   = "PK\x07\x08"
	endSignature          = "PK\x05\x06"
	end64Signature        = "PK\x06\x06"
	end64LocatorSignature = "PK\x06\x07"

	localLength        = 30
	endLength          = 22
	end64Length        = 56
	end64LocatorLength = 20

	flagEncrypted  = 1<<0 | 1<<6 | 1<<13 // encrypted, strongly encrypted, with masked headers
	flagDescriptor = 1 << 3
	knownFlags     = 1<<1 | 1<<2 | flagDescriptor | 1<<11 // 1 and 2: compression level, 11: UTF-8

	extraZip64       = 0x0001
	extraUnicodePath = 0x7075

	max16, max32 = 1<<16 - 1, 1<<32 - 1
)

var little = binary.LittleEndian

// TooMany is the error for an archive with more entries than are allowed.
type TooMany struct {
	Entries uint64
	Most    int
}

func (t *TooMany) Error() string {
	return fmt.Sprintf("%d entries, more than the %d that are allowed", t.Entries, t.Most)
}

// ReadEnd reads the last end record in the first size bytes of in, as archive/zip does, even if other data follows. It
// returns the number of entries, and the latest offset at which their directory can begin.
func ReadEnd(in io.ReaderAt, size int64, maxEntries int) (entries int, directory int64, err error) {
	tail := make([]byte, min(size, 65<<10))
	if err := readFull(in, tail, size-int64(len(tail))); err != nil {
		return 0, 0, err
	}
	i := bytes.LastIndex(tail[:max(0, len(tail)-endLength+len(endSignature))], []byte(endSignature))
	if i < 0 {
		return 0, 0, errors.New("not a zip file, or not all of it")
	}
	at, end := size-int64(len(tail)-i), tail[i:]
	count, length, offset := uint64(little.Uint16(end[10:])), uint64(little.Uint32(end[12:])), uint64(little.Uint32(end[16:]))
	parts := little.Uint32(end[4:]) != 0 || !bytes.Equal(end[8:10], end[10:12])
	if before := at - end64LocatorLength - end64Length; before >= 0 {
		record := make([]byte, end64Length+end64LocatorLength)
		if err := readFull(in, record, before); err != nil {
			return 0, 0, err
		}
		if locator := record[end64Length:]; string(locator[:4]) == end64LocatorSignature {
			count64, length64, offset64 := little.Uint64(record[32:]), little.Uint64(record[40:]), little.Uint64(record[48:])
			if string(record[:4]) != end64Signature || little.Uint64(locator[8:]) != uint64(before) {
				return 0, 0, errors.New("its zip64 end is not where its locator says")
			}
			if count != count64 && count != max16 || length != length64 && length != max32 || offset != offset64 && offset != max32 {
				return 0, 0, errors.New("its zip64 end contradicts its end")
			}
			parts = parts || little.Uint64(record[16:]) != 0 || !bytes.Equal(record[24:32], record[32:40])
			at, count, length = before, count64, length64
		}
	}
	switch {
	case parts:
		return 0, 0, errors.New("part of a zip file in several parts")
	case count > uint64(maxEntries):
		return 0, 0, &TooMany{count, maxEntries}
	case length > uint64(at):
		return 0, 0, errors.New("its directory is not where its end says")
	}
	return int(count), at - int64(length), nil
}

// checkHeader compares an entry of the directory with its local header, between header and data.
func checkHeader(f *zip.File, in io.ReaderAt, header, data int64) error {
	differs := func(what string) error {
		return fmt.Errorf("%.200q: the header before it and the directory have not the same %s", f.Name, what)
	}
	p := make([]byte, data-header)
	if err := readFull(in, p, header); err != nil {
		return err
	}
	name := int(little.Uint16(p[26:]))
	switch {
	case f.Flags&flagEncrypted != 0:
		return fmt.Errorf("%.200q: is encrypted", f.Name)
	case f.Flags&^knownFlags != 0:
		return fmt.Errorf("%.200q: has the flags %#x", f.Name, f.Flags)
	case string(p[localLength:localLength+name]) != f.Name:
		return differs("name")
	case little.Uint16(p[6:]) != f.Flags:
		return differs("flags")
	case little.Uint16(p[8:]) != f.Method:
		return differs("compression method")
	}
	if _, err := checkExtra(f.Extra, f.Name); err != nil {
		return err
	}
	zip64, err := checkExtra(p[localLength+name:], f.Name)
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
		return local == directory || local == 0 && f.Flags&flagDescriptor != 0 // the descriptor has the value
	}
	if !same(uint64(little.Uint32(p[14:])), uint64(f.CRC32)) || !same(packed, f.CompressedSize64) || !same(size, f.UncompressedSize64) {
		return differs("checksum and sizes")
	}
	return nil
}

// checkDescriptor compares an entry of the directory with the descriptor, which may follow the content, between at and
// next: the checksum and the sizes, with or without a signature, in 32 or 64 bits each. archive/zip ignores these
// sizes.
func checkDescriptor(f *zip.File, in io.ReaderAt, at, next int64) error {
	if f.Flags&flagDescriptor == 0 {
		return nil
	}
	p := make([]byte, min(24, next-at))
	if err := readFull(in, p, at); err != nil {
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
	return fmt.Errorf("%.200q: the descriptor after it and the directory have not the same checksum and sizes", f.Name)
}

// checkExtra refuses a second name or second sizes in extra fields, which only some readers use. It returns the field
// with sizes of 64 bits.
func checkExtra(extra []byte, name string) (zip64 []byte, err error) {
	for len(extra) >= 4 {
		id, n := little.Uint16(extra), int(little.Uint16(extra[2:]))
		if n > len(extra)-4 {
			break // padding, or incomplete: no other field fits
		}
		field := extra[4 : 4+n]
		switch {
		case id == extraZip64 && zip64 != nil:
			return nil, fmt.Errorf("%.200q: has zip64 sizes twice", name)
		case id == extraZip64:
			zip64 = field
		case id == extraUnicodePath && (n < 5 || string(field[5:]) != name):
			return nil, fmt.Errorf("%.200q: has another name in Unicode", name)
		}
		extra = extra[4+n:]
	}
	return zip64, nil
}
