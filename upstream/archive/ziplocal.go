package archive

// checkLocal compares e with the header at its offset, and with the descriptor that
// may be behind its content. Entry and descriptor must end where the next begins. It
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
		if e.data+e.packed != next {
			return refuse("%.200q: %d bytes after it belong to no entry", e.name, next-e.data-e.packed)
		}
		return nil
	}
	if crc != 0 && crc != e.crc || packed != 0 && packed != e.packed || size != 0 && size != e.size {
		return differs("checksum and sizes")
	}
	return e.checkDescriptor(in, next)
}

// checkDescriptor compares e with what is between its content and next: the checksum
// and the sizes, with or without a signature, in 32 or 64 bits each.
func (e *zipEntry) checkDescriptor(in *input, next int64) error {
	n := next - e.data - e.packed
	if n != 12 && n != 16 && n != 20 && n != 24 {
		return refuse("%.200q: %d bytes after it are not its descriptor", e.name, n)
	}
	d := make([]byte, n)
	if _, err := in.ReadAt(d, e.data+e.packed); err != nil {
		return err
	}
	if n == 16 || n == 24 {
		if string(d[:4]) != descriptorSignature {
			return refuse("%.200q: %d bytes after it are not its descriptor", e.name, n)
		}
		d = d[4:]
	}
	crc := little.Uint32(d)
	var packed, size uint64
	if len(d) == 12 {
		packed, size = uint64(little.Uint32(d[4:])), uint64(little.Uint32(d[8:]))
	} else {
		packed, size = little.Uint64(d[4:]), little.Uint64(d[12:])
	}
	if crc != e.crc || packed != uint64(e.packed) || size != uint64(e.size) {
		return refuse("%.200q: the descriptor after it and the directory have not the same checksum and sizes", e.name)
	}
	return nil
}
