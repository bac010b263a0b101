package archive

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"

	"github.com/modproxy/modproxy/internal/zipfile"
	"github.com/modproxy/modproxy/pack"
)

// unpackZip reads a zip archive with archive/zip, as the clients do. It refuses archives in which other programs see
// other entries.
func unpackZip(in *input, size int64, _ Format, b *pack.Builder) error {
	entries, directory, err := zipfile.ReadEnd(in, size, b.Limits().Entries)
	if errors.As(err, new(*zipfile.TooMany)) {
		err = fmt.Errorf("%w (operator: fetch.max_files)", err)
	}
	if err != nil {
		return err
	}
	bounded := &zipSource{
		ReaderAt:    io.NewSectionReader(in, 0, size),
		inDirectory: true, bytes: maxZipDirectory, entries: entries + maxReadTwice,
	}
	source := &zipfile.Source{ReaderAt: bounded}
	r, err := zip.NewReader(source, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // package pack checks the names
		return fmt.Errorf("the directory cannot be read: %w", err)
	}
	if len(r.File) != entries {
		return refuse("its directory has %d entries, but its end says %d", len(r.File), entries)
	}
	bounded.inDirectory = false
	if _, err := source.Check(r.File, directory); err != nil {
		return err
	}
	for _, f := range r.File {
		if err := unpackZipEntry(f, in, b); err != nil {
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
	if err == nil { // check the content that the builder did not read
		_, err = io.Copy(io.Discard, r)
	}
	return err
}

// A zipContent is the content of f. It checks a checksum of zero, which archive/zip does not.
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

var little = binary.LittleEndian

const (
	entrySignature  = "PK\x01\x02"
	maxZipDirectory = 32 << 20 // bytes: names use memory
	maxReadTwice    = 4096     // more entries than fit into the 66 KiB in which archive/zip first looks for the end
)

// A zipSource bounds the directory that archive/zip reads. archive/zip continues as long as entries follow.
type zipSource struct {
	io.ReaderAt
	inDirectory    bool
	bytes, entries int // remaining
}

func (s *zipSource) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, off)
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
