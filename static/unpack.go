package static

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/release"
)

// unpack stores the files of a package in a directory, all or none. Without content it copies them from another
// directory.
func (s *Site) unpack(v modproxy.Ref, tree string, digest modproxy.Digest, hashes modproxy.Hashes, content io.Reader) error {
	var files func(to string) error // writes the files
	var sum modproxy.Sum
	temp, target := filepath.Join(s.dir, scratch), filepath.Join(s.dir, tree)
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if content != nil {
		name := filepath.Join(temp, "package.zip")
		if err := s.add(name, digest, content); err != nil {
			return err
		}
		delete(s.have, digest) // the archive is removed
		archive, facts, err := openZip(name, v.Name)
		if err != nil {
			return err
		}
		defer archive.Close()
		files = func(to string) error { return copyZip(to, archive.File) }
		sum = facts.Dir
	} else {
		for _, known := range hashes.All() {
			if s.trees[known] == tree {
				return nil
			}
			if from := s.trees[known]; from != "" {
				files = func(to string) error { return copyTree(to, filepath.Join(s.dir, from)) }
				sum = known
			}
		}
	}
	if files == nil {
		return fmt.Errorf("%w: the package %s is missing from the directory", modproxy.ErrInvalid, digest)
	}
	if err := files(filepath.Join(temp, "files")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := os.Rename(target, filepath.Join(temp, "before")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for known, at := range s.trees { // the previous package in this directory
		if at == tree {
			delete(s.trees, known)
		}
	}
	s.trees[sum] = tree
	return durable.Disk{}.Rename(filepath.Join(temp, "files"), target)
}

// openZip opens the package of a provider after checking that it is one, and that its files may be written. The size of
// its content is not bounded, because it comes from the cache of a proxy.
func openZip(name, typ string) (*zip.ReadCloser, release.ArchiveSums, error) {
	f, err := durable.OpenRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, release.ArchiveSums{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, release.ArchiveSums{}, err
	}
	facts, err := release.CheckZip(f, info.Size(), typ, release.ZipLimits{Bytes: 1 << 50, Ratio: 1 << 20})
	if err != nil {
		return nil, facts, err
	}
	archive, err := zip.OpenReader(name)
	return archive, facts, err
}

// copyZip writes the files of an archive with their modes. The names of its entries were checked. It does not use an
// [fs.FS], which rejects names that are not UTF-8.
func copyZip(to string, entries []*zip.File) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, entry := range entries {
		target := filepath.Join(to, filepath.FromSlash(entry.Name))
		dir, isDir := filepath.Dir(target), strings.HasSuffix(entry.Name, "/")
		if isDir {
			dir = target
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if isDir {
			continue
		}
		from, err := entry.Open()
		if err != nil {
			return err
		}
		if err := errors.Join(copyFile(target, from, entry.Mode()), from.Close()); err != nil {
			return err
		}
	}
	return nil
}

// copyTree writes the files of a directory with their modes.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		if entry.IsDir() {
			return os.Mkdir(target, 0o755)
		}
		f, err := durable.OpenRegular(name, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return copyFile(target, f, info.Mode())
	})
}

func copyFile(target string, from io.Reader, mode fs.FileMode) error {
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = durable.Disk{}.FinishTemp(f, func(f *os.File) error {
		_, err := io.Copy(f, from)
		return errors.Join(err, f.Chmod(mode.Perm()|0o400)) // clients read the files
	})
	return err
}
