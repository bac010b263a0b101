package release

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/zipfile"
	"github.com/modproxy/modproxy/pack"
)

// ZipLimits bounds an archive. A zero field means the default.
type ZipLimits struct {
	Entries int   // files and directories; the default is 10,000
	Bytes   int64 // of the content of all files; the default is 2 GiB
	Ratio   int   // of content to archive size, beyond the first MiB of content; the default is 100
}

const (
	maxDirectory = 4 << 20 // bytes read for the central directory, because names use memory
	maxName      = 1024    // bytes
	freeBytes    = 1 << 20 // of content, allowed with any ratio
	copyBuffer   = 128 << 10

	end64Signature = "PK\x06\x06"
)

// ArchiveSums has the properties of an archive that depend on its content.
type ArchiveSums struct {
	Sum   modproxy.Sum // of the archive: mirrors list it, and clients compare it before they unpack
	Dir   modproxy.Sum // of the unpacked directory: clients lock it; it differs from Sum if the archive has entries for directories
	Bytes int64        // of the content of all files
}

// CheckZip reads the archive of a provider for one platform, which has size bytes, to its end. The clients must be able
// to install from it (ExecutableFile in internal/providercache/cached_provider.go): it needs a file
// terraform-provider-TYPE at its top, whose name may continue after an underscore or a dot. Both sums are computed in
// one pass (package dirhash of golang.org/x/mod, HashZip and HashDir, see https://go.dev/issue/53448).
//
// CheckZip refuses names that [pack.CheckName] refuses, duplicate names, files that are also directories, other types
// of entries, encrypted entries, entries that share bytes, headers that contradict the directory, content that
// contradicts its header, and archives that exceed a limit.
//
// Errors: [modproxy.ErrInvalid], and those of r.
func CheckZip(r io.ReaderAt, size int64, typ string, l ZipLimits) (ArchiveSums, error) {
	l.Entries = cmp.Or(l.Entries, 10_000)
	l.Bytes = cmp.Or(l.Bytes, 2<<30)
	l.Ratio = cmp.Or(l.Ratio, 100)
	in := &zipInput{r: r, left: maxDirectory}
	facts, err := checkZip(in, size, typ, l)
	switch {
	case in.err != nil:
		return ArchiveSums{}, in.err
	case errors.Is(err, modproxy.ErrInvalid):
		return ArchiveSums{}, fmt.Errorf("archive: %w", err)
	case err != nil:
		return ArchiveSums{}, invalid("archive: %w", err)
	}
	return facts, nil
}

// A zipInput separates errors of r from errors about the content, and bounds the central directory.
type zipInput struct {
	r    io.ReaderAt
	left int64 // bytes that may still be read; negative means no limit
	err  error
}

func (in *zipInput) ReadAt(p []byte, off int64) (int, error) {
	if in.left >= 0 {
		if in.left -= int64(len(p)); in.left < 0 {
			in.left = 0
			return 0, fmt.Errorf("its directory has more than about %d bytes", maxDirectory)
		}
	}
	if off < 0 { // some records have a negative offset
		return 0, zip.ErrFormat
	}
	n, err := in.r.ReadAt(p, off)
	if err != nil && err != io.EOF {
		in.err = err
	}
	if in.left >= 0 && bytes.HasPrefix(p[:n], []byte(end64Signature)) { // archive/zip allocates memory for the number of entries in it
		return 0, errors.New("it ends in zip64 form, which archives of up to 4 GiB do not need")
	}
	return n, err
}

func checkZip(in *zipInput, size int64, typ string, l ZipLimits) (ArchiveSums, error) {
	source := &zipfile.Source{ReaderAt: in}
	archive, err := zip.NewReader(source, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // checkTree checks names
		return ArchiveSums{}, err
	}
	in.left = -1
	entries, directory, err := zipfile.ReadEnd(in, size, l.Entries)
	if err != nil {
		return ArchiveSums{}, err
	}
	if len(archive.File) != entries {
		return ArchiveSums{}, fmt.Errorf("its directory has %d entries, but its end says %d", len(archive.File), entries)
	}
	if err := checkTree(archive.File, typ); err != nil {
		return ArchiveSums{}, err
	}
	files, err := source.Check(archive.File, directory)
	if err != nil {
		return ArchiveSums{}, err
	}
	allowed := min(l.Bytes, max(freeBytes, size*int64(l.Ratio)))
	archive.RegisterDecompressor(zip.Deflate, flate.NewReader)
	sums := make(map[string][]byte, len(files))
	facts, buf, h := ArchiveSums{}, make([]byte, copyBuffer), sha256.New()
	for _, f := range files {
		if f.UncompressedSize64 > uint64(allowed-facts.Bytes) {
			return ArchiveSums{}, fmt.Errorf("%.200q: more content than the %d bytes that are allowed for an archive of %d", f.Name, allowed, size)
		}
		h.Reset()
		if err := readEntry(f, h, buf); err != nil {
			return ArchiveSums{}, fmt.Errorf("%.200q: %w", f.Name, err)
		}
		facts.Bytes += int64(f.UncompressedSize64)
		sums[f.Name] = h.Sum(nil)
	}
	all, dir := sha256.New(), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(all, "%x  %s\n", sums[name], name)
		if !strings.HasSuffix(name, "/") {
			fmt.Fprintf(dir, "%x  %s\n", sums[name], name)
		}
	}
	facts.Sum = modproxy.NewSum([sha256.Size]byte(all.Sum(nil)))
	facts.Dir = modproxy.NewSum([sha256.Size]byte(dir.Sum(nil)))
	return facts, nil
}

// checkTree checks that the names form one tree with the program of the provider. Names may have any bytes, because
// clients unpack them unchanged.
func checkTree(files []*zip.File, typ string) error {
	names, program := make(map[string]bool, len(files)), false // the value is true for a directory
	for _, f := range files {
		name, isDir := strings.CutSuffix(f.Name, "/")
		mode := f.Mode().Type()
		switch _, twice := names[name]; {
		case len(f.Name) > maxName:
			return fmt.Errorf("%.80q…: a name of more than the %d bytes that are allowed", f.Name, maxName)
		case pack.CheckName(name) != nil:
			return pack.CheckName(name)
		case twice:
			return fmt.Errorf("%.200q: appears twice", name)
		case f.Flags&1 != 0:
			return fmt.Errorf("%.200q: is encrypted", name)
		case isDir && f.UncompressedSize64 != 0:
			return fmt.Errorf("%.200q: is a directory, and has content", name)
		case !isDir && mode != 0:
			return fmt.Errorf("%.200q: is neither a file nor, by its name, a directory", name)
		}
		names[name] = isDir
		rest, ok := strings.CutPrefix(name, "terraform-provider-"+typ)
		program = program || ok && !isDir && !strings.Contains(name, "/") && (rest == "" || rest[0] == '_' || rest[0] == '.')
	}
	for name := range names {
		for i := range len(name) {
			if name[i] != '/' {
				continue
			}
			if isDir, there := names[name[:i]]; there && !isDir {
				return fmt.Errorf("%.200q: is a file and a directory", name[:i])
			}
		}
	}
	if !program {
		return fmt.Errorf("no file at its top is named terraform-provider-%.80s or that and an underscore or dot: no client installs it", typ)
	}
	return nil
}

// readEntry reads the content of f to its end, and hashes it. It adds two checks that archive/zip lacks: a checksum of
// zero, and content that is longer than its header says.
func readEntry(f *zip.File, h hash.Hash, buf []byte) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	crc := crc32.NewIEEE()
	to := io.Writer(h)
	if f.CRC32 == 0 {
		to = io.MultiWriter(h, crc)
	}
	n, err := io.CopyBuffer(to, io.LimitReader(content, int64(f.UncompressedSize64)+1), buf)
	switch {
	case err != nil:
		return err
	case uint64(n) != f.UncompressedSize64 || crc.Sum32() != 0:
		return errors.New("the content is not what its header says")
	}
	return nil
}
