package archive

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/pack"
)

// unpackZip reads a zip archive by archive/zip, as the clients do, within the limits. It
// first refuses an archive in which other programs see other entries.
func unpackZip(in *input, size int64, _ Format, out *output, b *pack.Builder) error {
	end, err := readZipEnd(in, size, b.Limits().Entries)
	if err != nil {
		return err
	}
	source := &zipSource{
		ReaderAt:    io.NewSectionReader(in, 0, size),
		inDirectory: true, bytes: maxZipDirectory, entries: end.entries + maxReadTwice,
	}
	r, err := zip.NewReader(source, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // package pack checks the names
		return fmt.Errorf("the directory cannot be read: %w", err)
	}
	if len(r.File) != end.entries {
		return refuse("its directory has %d entries, but its end says %d", len(r.File), end.entries)
	}
	source.inDirectory = false
	if err := checkZipEntries(r.File, source, end.directory); err != nil {
		return err
	}
	for _, f := range r.File {
		if err := unpackZipEntry(f, out, b); err != nil {
			return err
		}
	}
	return nil
}

// checkZipEntries checks the header of every entry. An entry must end where the next one
// or the directory begins, or before.
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
	}
	return nil
}

func unpackZipEntry(f *zip.File, out *output, b *pack.Builder) error {
	content, err := f.Open()
	if err != nil {
		return fmt.Errorf("%.200q: %w", f.Name, err)
	}
	defer content.Close()
	r := &zipContent{f: f, r: &expanded{r: content, out: out}}
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
		target, err := io.ReadAll(io.LimitReader(r, maxTarget+1))
		if err != nil {
			return err
		}
		if err := b.Link(name, string(target)); err != nil {
			return err
		}
	case kind == 0:
		if err := b.File(name, mode&0o100 != 0, r); err != nil {
			return err
		}
	default:
		return refuse("%.200q: is a device, a named pipe or a socket", f.Name)
	}
	// What the builder did not ask for is still checked.
	_, err = io.Copy(io.Discard, r)
	return err
}

// A zipContent is the content of f. archive/zip compares its length and its checksum
// with the directory, but leaves a checksum of zero unchecked.
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
		return n, c.r.out.stop(refuse("%.200q: %w", c.f.Name, zip.ErrChecksum))
	case err != nil && err != io.EOF:
		return n, c.r.out.stop(refuse("%.200q: the content is not what its header says: %w", c.f.Name, err))
	}
	return n, err
}
