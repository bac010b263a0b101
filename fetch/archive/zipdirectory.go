package archive

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
)

// Signatures and fixed lengths of zip's records.
const (
	localSignature        = "PK\x03\x04"
	descriptorSignature   = "PK\x07\x08"
	entrySignature        = "PK\x01\x02"
	endSignature          = "PK\x05\x06"
	end64Signature        = "PK\x06\x06"
	end64LocatorSignature = "PK\x06\x07"

	localLength        = 30
	entryLength        = 46
	endLength          = 22
	end64Length        = 56
	end64LocatorLength = 20

	// maxZipDirectory bounds the memory that names take.
	maxZipDirectory = 32 << 20
)

var little = binary.LittleEndian

// A zipDirectory says where the directory of a zip archive is.
type zipDirectory struct {
	offset, size int64
	entries      int64
	start        int64 // of the archive, which offsets of entries count from
}

// findZipDirectory reads the records at the end of the archive: the last end that is
// there, whatever follows it. Offsets count from where the archive begins, whatever is
// before it.
func findZipDirectory(in *input, size int64, l Limits) (*zipDirectory, error) {
	tail := make([]byte, min(size, 65<<10)) // where archive/zip looks
	if _, err := in.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	i := bytes.LastIndex(tail[:max(0, len(tail)-endLength+len(endSignature))], []byte(endSignature))
	if i < 0 || int(little.Uint16(tail[i+20:])) > len(tail)-i-endLength {
		return nil, refuse("not a zip file, or not all of it")
	}
	end := tail[i:]
	if little.Uint32(end[4:]) != 0 || !bytes.Equal(end[8:10], end[10:12]) {
		return nil, refuse("part of a zip file in several parts")
	}
	d := &zipDirectory{
		entries: int64(little.Uint16(end[10:])),
		size:    int64(little.Uint32(end[12:])),
		offset:  int64(little.Uint32(end[16:])),
	}
	at := size - int64(len(end)) // where the directory ends
	at, err := d.read64(in, at)
	switch {
	case err != nil:
		return nil, err
	case d.entries > int64(l.Entries):
		return nil, refuse("%d entries, more than the %d that are allowed", d.entries, l.Entries)
	case d.size > maxZipDirectory:
		return nil, refuse("a directory of %d bytes, more than the %d that are allowed", d.size, maxZipDirectory)
	case d.offset > at || d.size > at-d.offset:
		return nil, refuse("its directory is not where its end says")
	case d.size < d.entries*entryLength:
		return nil, refuse("its directory has not the %d entries that its end says", d.entries)
	}
	return d, d.findStart(in, at)
}

// findStart sets d.start. The directory ends at at, or else, with something behind it,
// begins where it says.
func (d *zipDirectory) findStart(in *input, at int64) error {
	start := at - d.size - d.offset
	if start == 0 {
		return nil
	}
	signature := make([]byte, len(entrySignature))
	if _, err := in.ReadAt(signature, d.offset); err != nil {
		return err
	}
	if string(signature) != entrySignature {
		d.start, d.offset = start, d.offset+start
	}
	return nil
}

// read64 reads the zip64 record that may be before the end record at at, and says
// where the first of them begins.
func (d *zipDirectory) read64(in *input, at int64) (int64, error) {
	if at < end64LocatorLength+end64Length {
		return at, nil
	}
	locator := make([]byte, end64LocatorLength)
	if _, err := in.ReadAt(locator, at-end64LocatorLength); err != nil {
		return 0, err
	}
	if string(locator[:4]) != end64LocatorSignature {
		return at, nil
	}
	at -= end64LocatorLength + end64Length
	end := make([]byte, end64Length)
	if _, err := in.ReadAt(end, at); err != nil {
		return 0, err
	}
	switch {
	case string(end[:4]) != end64Signature, little.Uint64(end[4:]) != end64Length-12,
		little.Uint64(locator[8:]) != uint64(at), little.Uint32(locator[4:]) != 0, little.Uint32(locator[16:]) != 1:
		return 0, refuse("its zip64 end is not where its locator says")
	case little.Uint64(end[16:]) != 0, !bytes.Equal(end[24:32], end[32:40]):
		return 0, refuse("part of a zip file in several parts")
	}
	for _, field := range []struct {
		to   *int64
		from []byte
		max  int64 // stands for: see zip64
	}{{&d.entries, end[32:], 1<<16 - 1}, {&d.size, end[40:], 1<<32 - 1}, {&d.offset, end[48:], 1<<32 - 1}} {
		n := int64(little.Uint64(field.from))
		if n < 0 || *field.to != n && *field.to != field.max {
			return 0, refuse("its zip64 end contradicts its end")
		}
		*field.to = n
	}
	return at, nil
}

// read reads the entries, which together may expand to max bytes.
func (d *zipDirectory) read(in *input, max int64) ([]*zipEntry, error) {
	section := io.NewSectionReader(in, d.offset, d.size)
	r := bufio.NewReaderSize(section, int(min(d.size+1, 64<<10)))
	entries := make([]*zipEntry, 0, d.entries)
	var total int64
	for range d.entries {
		e, err := readZipEntry(r)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, refuse("its directory ends in entry %d of %d", len(entries)+1, d.entries)
		}
		if err != nil {
			return nil, err
		}
		if e.size > max-total {
			return nil, refuse("%.200q: expands to more than the %d bytes that are allowed for its size", e.name, max)
		}
		total += e.size
		if e.offset > d.offset-d.start {
			return nil, refuse("%.200q: its header is not before the directory", e.name)
		}
		e.offset += d.start
		entries = append(entries, e)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return nil, refuse("something follows the last entry of its directory")
	}
	return entries, d.checkBehind(in)
}

// checkBehind refuses entries behind the directory. archive/zip reads them, and counts
// modulo 65536.
func (d *zipDirectory) checkBehind(in *input) error {
	signature := make([]byte, len(entrySignature)) // the end is behind the directory
	if _, err := in.ReadAt(signature, d.offset+d.size); err != nil {
		return err
	}
	if string(signature) == entrySignature {
		return refuse("more entries follow its directory")
	}
	return nil
}
