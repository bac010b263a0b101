package archive

import (
	"bufio"
	"hash/crc32"
	"io"
	"strings"
)

const (
	stored   = 0
	deflated = 8

	flagEncrypted  = 1 << 0
	flagDescriptor = 1 << 3
	flagPatch      = 1 << 5
	flagStrong     = 1 << 6
	flagMasked     = 1 << 13
	knownFlags     = 1<<1 | 1<<2 | flagDescriptor | 1<<11 // 1 and 2: how it was deflated, 11: UTF-8

	extraZip64       = 0x0001
	extraUnicodePath = 0x7075

	max32 = 1<<32 - 1
)

// A zipEntry is one entry of the directory. What it says is checked against the header
// before the content, and then against the content.
type zipEntry struct {
	name         string
	flags        uint16
	method       uint16
	crc          uint32
	packed, size int64
	offset       int64 // of its local header
	data         int64 // of its content; known after checkLocal
	creator      byte
	attributes   uint32
}

// readZipEntry reads an entry of the directory. Errors that do not refuse the archive
// are those of r.
func readZipEntry(r *bufio.Reader) (*zipEntry, error) {
	p := make([]byte, entryLength)
	if _, err := io.ReadFull(r, p); err != nil {
		return nil, err
	}
	if string(p[:4]) != entrySignature {
		return nil, refuse("an entry of its directory is not where the one before ends")
	}
	e := &zipEntry{
		creator:    p[5],
		flags:      little.Uint16(p[8:]),
		method:     little.Uint16(p[10:]),
		crc:        little.Uint32(p[16:]),
		packed:     int64(little.Uint32(p[20:])),
		size:       int64(little.Uint32(p[24:])),
		attributes: little.Uint32(p[38:]),
		offset:     int64(little.Uint32(p[42:])),
	}
	name, extra, comment := int(little.Uint16(p[28:])), int(little.Uint16(p[30:])), int(little.Uint16(p[32:]))
	rest := make([]byte, name+extra)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, err
	}
	if _, err := r.Discard(comment); err != nil {
		return nil, err
	}
	e.name = string(rest[:name])
	if little.Uint16(p[34:]) != 0 {
		return nil, refuse("%.200q: is in another part of the zip file", e.name)
	}
	if err := checkUnicodePath(rest[name:], e.name); err != nil {
		return nil, err
	}
	if err := readZip64(rest[name:], e.name, &e.size, &e.packed, &e.offset); err != nil {
		return nil, err
	}
	return e, e.check()
}

func (e *zipEntry) check() error {
	switch {
	case e.flags&(flagEncrypted|flagStrong|flagMasked) != 0:
		return refuse("%.200q: is encrypted", e.name)
	case e.flags&flagPatch != 0:
		return refuse("%.200q: is a patch", e.name)
	case e.flags&^knownFlags != 0:
		return refuse("%.200q: has the flags %#x", e.name, e.flags)
	case e.method != stored && e.method != deflated:
		return refuse("%.200q: is compressed by method %d, which is neither stored nor deflate", e.name, e.method)
	case e.method == stored && e.packed != e.size:
		return refuse("%.200q: is stored, but not in its size", e.name)
	case strings.Contains(e.name, "\x00"):
		return refuse("%.200q: the name has a NUL", e.name)
	}
	return nil
}

// zipExtra calls f for every extra field with the given number.
func zipExtra(extra []byte, id uint16, f func(data []byte) error) error {
	for len(extra) >= 4 {
		n := int(little.Uint16(extra[2:]))
		if n > len(extra)-4 {
			return nil // padding, or broken; no other field can be in it
		}
		if little.Uint16(extra) == id {
			if err := f(extra[4 : 4+n]); err != nil {
				return err
			}
		}
		extra = extra[4+n:]
	}
	return nil
}

// readZip64 replaces those values that do not fit in 32 bits, which are the ones that
// have all of these bits set.
func readZip64(extra []byte, name string, values ...*int64) error {
	found := false
	err := zipExtra(extra, extraZip64, func(data []byte) error {
		if found {
			return refuse("%.200q: has zip64 sizes twice", name)
		}
		found = true
		for _, v := range values {
			if *v != max32 {
				continue
			}
			if len(data) < 8 {
				return refuse("%.200q: has zip64 sizes that are cut short", name)
			}
			if *v = int64(little.Uint64(data)); *v < 0 {
				return refuse("%.200q: has impossible zip64 sizes", name)
			}
			data = data[8:]
		}
		return nil
	})
	if err != nil || found {
		return err
	}
	for _, v := range values {
		if *v == max32 {
			return refuse("%.200q: says that it has zip64 sizes, and has none", name)
		}
	}
	return nil
}

// checkUnicodePath refuses a second name, which some readers prefer to the first.
func checkUnicodePath(extra []byte, name string) error {
	return zipExtra(extra, extraUnicodePath, func(data []byte) error {
		if len(data) < 5 || string(data[5:]) != name || little.Uint32(data[1:]) != crc32.ChecksumIEEE([]byte(name)) {
			return refuse("%.200q: has another name in Unicode", name)
		}
		return nil
	})
}

type zipKind int

const (
	kindFile zipKind = iota
	kindDirectory
	kindLink
)

// Who made an entry says what its attributes mean (section 4.4.2).
const (
	creatorFAT    = 0
	creatorUnix   = 3
	creatorNTFS   = 10
	creatorVFAT   = 14
	creatorDarwin = 19
)

func (e *zipEntry) isUnix() bool { return e.creator == creatorUnix || e.creator == creatorDarwin }

func (e *zipEntry) executable() bool { return e.isUnix() && e.attributes>>16&0o100 != 0 }

// kind is what an entry is by its name and by its attributes, which must agree.
func (e *zipEntry) kind() (zipKind, error) {
	byName := kindFile
	if strings.HasSuffix(e.name, "/") {
		byName = kindDirectory
		if e.size != 0 {
			return 0, refuse("%.200q: is a directory, and has content", e.name)
		}
	}
	kind := byName
	switch {
	case e.isUnix():
		switch format := e.attributes >> 16 & 0o170000; format {
		case 0:
		case 0o100000:
			kind = kindFile
		case 0o040000:
			kind = kindDirectory
		case 0o120000:
			kind = kindLink
		default:
			return 0, refuse("%.200q: is a device, a named pipe or a socket", e.name)
		}
	case e.creator == creatorFAT || e.creator == creatorNTFS || e.creator == creatorVFAT:
		if e.attributes&0x10 != 0 {
			kind = kindDirectory
		}
	}
	if kind != byName && !(kind == kindLink && byName == kindFile) {
		return 0, refuse("%.200q: is a directory by its name or by its attributes, but not by both", e.name)
	}
	return kind, nil
}
