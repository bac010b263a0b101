package archive

import "bytes"

// checkLocal compares e with the header at its offset, and with the descriptor that
// may be behind its content. Entry and descriptor must end before the next begins. It
// sets e.data.
func (e *zipEntry) checkLocal(in *input, next int64) error {
	if next-e.offset < localLength+int64(len(e.name)) {
		return refuse("%.200q: overlaps another entry", e.name)
	}
	p := make([]byte, localLength+len(e.name))
	if _, err := in.ReadAt(p, e.offset); err != nil {
		return err
	}
	differs := func(what string) error {
		return refuse("%.200q: the header before it and the directory have not the same %s", e.name, what)
	}
	switch {
	case string(p[:4]) != localSignature:
		return refuse("%.200q: no header is where the directory says", e.name)
	case int(little.Uint16(p[26:])) != len(e.name) || string(p[localLength:]) != e.name:
		return differs("name")
	case little.Uint16(p[6:]) != e.flags:
		return differs("flags")
	case little.Uint16(p[8:]) != e.method:
		return differs("compression method")
	}
	extra := make([]byte, little.Uint16(p[28:]))
	e.data = e.offset + int64(len(p)+len(extra))
	if e.data > next || e.packed > next-e.data {
		return refuse("%.200q: overlaps what follows it", e.name)
	}
	if _, err := in.ReadAt(extra, e.offset+int64(len(p))); err != nil {
		return err
	}
	if err := checkUnicodePath(extra, e.name); err != nil {
		return err
	}
	crc, packed, size := little.Uint32(p[14:]), int64(little.Uint32(p[18:])), int64(little.Uint32(p[22:]))
	if err := readZip64(extra, e.name, &size, &packed); err != nil {
		return err
	}
	if e.flags&flagDescriptor == 0 {
		if crc != e.crc || packed != e.packed || size != e.size {
			return differs("checksum and sizes")
		}
		return nil
	}
	if crc != 0 && crc != e.crc || packed != 0 && packed != e.packed || size != 0 && size != e.size {
		return differs("checksum and sizes")
	}
	return e.checkDescriptor(in, next)
}

// checkDescriptor compares e with what follows its content before next: the checksum
// and the sizes, with or without a signature, in 32 or 64 bits each.
func (e *zipEntry) checkDescriptor(in *input, next int64) error {
	d := make([]byte, min(24, next-e.data-e.packed))
	if _, err := in.ReadAt(d, e.data+e.packed); err != nil {
		return err
	}
	for _, d := range [][]byte{d, bytes.TrimPrefix(d, []byte(descriptorSignature))} {
		if len(d) >= 12 && little.Uint32(d) == e.crc &&
			int64(little.Uint32(d[4:])) == e.packed && int64(little.Uint32(d[8:])) == e.size {
			return nil
		}
		if len(d) >= 20 && little.Uint32(d) == e.crc &&
			little.Uint64(d[4:]) == uint64(e.packed) && little.Uint64(d[12:]) == uint64(e.size) {
			return nil
		}
	}
	return refuse("%.200q: the descriptor after it and the directory have not the same checksum and sizes", e.name)
}
