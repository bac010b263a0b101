package archive

import (
	"bufio"
	"cmp"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/klauspost/compress/flate"

	"github.com/modproxy/modproxy/pack"
)

// unpackZip reads a zip archive
// (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT) by the directory at its
// end, with which the headers before the entries must agree.
func unpackZip(in *input, size int64, out *output, b *pack.Builder, l Limits) error {
	dir, err := findZipDirectory(in, size, l)
	if err != nil {
		return err
	}
	entries, err := dir.read(in, out.max)
	if err != nil {
		return err
	}
	placed := slices.SortedFunc(slices.Values(entries), func(a, b *zipEntry) int { return cmp.Compare(a.offset, b.offset) })
	for i, e := range placed {
		next := dir.offset
		if i+1 < len(placed) {
			next = placed[i+1].offset
		}
		if err := e.checkLocal(in, next); err != nil {
			return err
		}
	}
	z := zipContents{in: in, out: out, inflate: flate.NewReader(nil)}
	for _, e := range entries {
		if err := z.add(e, b); err != nil {
			return err
		}
	}
	return nil
}

// zipContents reads entry after entry.
type zipContents struct {
	in      *input
	out     *output
	inflate io.ReadCloser
	packed  bufio.Reader
}

func (z *zipContents) add(e *zipEntry, b *pack.Builder) error {
	kind, err := e.kind()
	if err != nil {
		return err
	}
	r, err := z.open(e)
	if err != nil {
		return err
	}
	name := cleanName(e.name)
	switch kind {
	case kindFile:
		err = b.File(name, e.executable(), r)
	case kindLink:
		var target []byte
		if target, err = io.ReadAll(io.LimitReader(r, maxTarget+1)); err == nil {
			err = b.Link(name, string(target))
		}
	case kindDirectory:
		if name != "" {
			err = b.Dir(name)
		}
	}
	if err != nil {
		return err
	}
	// What the builder did not ask for is still checked.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("%.200q: %w", e.name, err)
	}
	return nil
}

func (z *zipContents) open(e *zipEntry) (io.Reader, error) {
	z.packed.Reset(io.NewSectionReader(z.in, e.data, e.packed))
	r := &zipReader{e: e, r: &z.packed, packed: &z.packed, out: z.out}
	if e.method == deflated {
		if err := z.inflate.(flate.Resetter).Reset(&z.packed, nil); err != nil {
			return nil, err
		}
		r.r = z.inflate
	}
	return r, nil
}

// A zipReader is the content of one entry, which must be what its headers say.
type zipReader struct {
	e      *zipEntry
	r      io.Reader
	packed *bufio.Reader
	out    *output
	n      int64
	crc    uint32
	end    error
}

func (r *zipReader) Read(p []byte) (int, error) {
	if r.end != nil {
		return 0, r.end
	}
	n, err := r.r.Read(p)
	r.n += int64(n)
	r.crc = crc32.Update(r.crc, crc32.IEEETable, p[:n])
	r.end = r.check(n, err)
	return n, r.end
}

// check judges a read of n bytes that ended in err.
func (r *zipReader) check(n int, err error) error {
	stop := func(format string, args ...any) error {
		return r.out.stop(refuse("%.200q: %w", r.e.name, fmt.Errorf(format, args...)))
	}
	if err := r.out.add(n); err != nil {
		return err
	}
	if r.n > r.e.size {
		return stop("has more than the %d bytes that its header says", r.e.size)
	}
	if err != io.EOF {
		return err
	}
	if r.n != r.e.size {
		return stop("has %d bytes, but its header says %d", r.n, r.e.size)
	}
	if r.crc != r.e.crc {
		return stop("has another checksum than its header says")
	}
	if _, err := r.packed.ReadByte(); err != io.EOF {
		return stop("something follows its compressed content")
	}
	return io.EOF
}
