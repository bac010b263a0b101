package registrytest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// formats are the extensions of archives that a fixture can contain, longest first.
var formats = []string{"tar.bz2", "tar.gz", "tar.xz", "tbz2", "tgz", "txz", "zip", "tar"}

// formatOf returns the format in the extension of a file name, or "".
func formatOf(name string) string {
	for _, format := range formats {
		if strings.HasSuffix(name, "."+format) {
			return format
		}
	}
	return ""
}

// modified is the time of every file and commit here, so that equal fixtures have equal bytes and commit ids.
var modified = time.Date(2024, 1, 2, 3, 4, 6, 0, time.UTC)

// buildArchive packs files in the format of name's extension. The programs bzip2 and xz write the formats that the Go
// standard library cannot.
func buildArchive(name string, files []file) ([]byte, error) {
	format := formatOf(name)
	if format == "zip" {
		var out bytes.Buffer
		err := writeZip(&out, files, "")
		return out.Bytes(), err
	}
	plain, err := buildTar(files)
	if err != nil {
		return nil, err
	}
	switch format {
	case "tar.gz", "tgz":
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		w.Write(plain)
		w.Close()
		return out.Bytes(), nil
	case "tar.bz2", "tbz2":
		return filter(plain, "bzip2", "-c")
	case "tar.xz", "txz":
		return filter(plain, "xz", "-c")
	}
	return plain, nil
}

func filter(data []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func buildTar(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	for _, f := range files {
		if err := tarDirectories(w, path.Dir(f.name), made); err != nil {
			return nil, err
		}
		h := &tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data)), ModTime: modified, Typeflag: tar.TypeReg}
		if f.exec {
			h.Mode = 0o755
		}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func tarDirectories(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := tarDirectories(w, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o755, ModTime: modified, Typeflag: tar.TypeDir})
}

func writeZip(out io.Writer, files []file, comment string) error {
	w := zip.NewWriter(out)
	if err := w.SetComment(comment); err != nil {
		return err
	}
	if slices.ContainsFunc(files, func(f file) bool { return f.random > 0 }) { // random content is not compressed
		w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
			return flate.NewWriter(out, flate.NoCompression)
		})
	}
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified}
		mode, data := fs.FileMode(0o644), f.data
		switch {
		case f.exec:
			mode = 0o755
		case f.link != "":
			mode, data = fs.ModeSymlink|0o777, []byte(f.link)
		case strings.HasSuffix(f.name, "/"):
			mode = fs.ModeDir | 0o755
		}
		h.SetMode(mode)
		body, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := body.Write(data); err != nil {
			return err
		}
		if _, err := io.CopyN(body, rand.NewChaCha8(sha256.Sum256([]byte(comment))), f.random); err != nil {
			return err
		}
	}
	return w.Close()
}
