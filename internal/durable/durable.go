// Package durable makes file changes survive power cuts, and opens untrusted files safely.
//
//	var disk durable.Disk
//	err := disk.WriteFile(name, func(f *os.File) error { … })
//
// Invariants: after a call has returned nil, its change is on the disk. On systems that cannot flush directories, such as Windows, this
// holds for the content of files, and not for their names. After a power cut, a file has its complete old content or its complete new
// content. [OpenRegular] with [NoFollow] opens only regular files, and refuses a name whose last element is a symbolic link, where the
// system has this flag.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ErrSync is wrapped by errors of flushes. After such an error the state is unknown: the change may be on the disk or
// not, and another flush of the same file may succeed without writing anything.
var ErrSync = errors.New("cannot flush to the disk")

// Disk makes changes durable. The zero value is ready for use.
type Disk struct {
	// Sync flushes an open file or directory. nil means (*os.File).Sync; tests replace it.
	Sync func(*os.File) error
}

// Flush flushes an open file. Its error is [ErrSync].
func (d Disk) Flush(f *os.File) error {
	sync := d.Sync
	if sync == nil {
		sync = (*os.File).Sync
	}
	if err := sync(f); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSync, f.Name(), err)
	}
	return nil
}

// FlushDir flushes the names in a directory, if the system and the file system support it. Its error is [ErrSync].
func (d Disk) FlushDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	return d.closeDir(f)
}

func (d Disk) closeDir(f *os.File) error {
	err := d.Flush(f)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || !canFlushDir {
		err = nil
	}
	f.Close() // it was only read
	return err
}

// WriteFile replaces the content of the named file with the content that write writes. After a power cut the file has
// either the complete old or the complete new content; after WriteFile has returned nil, the new content. If the error
// is not [ErrSync], the old file is unchanged. The mode of the new file is 0600, unless write changes it.
//
// WriteFile writes a temporary file, flushes it, renames it, and flushes the directory.
func (d Disk) WriteFile(name string, write func(*os.File) error) error {
	temp, err := d.WriteTemp(filepath.Dir(name), filepath.Base(name), write)
	if err != nil {
		return err
	}
	return d.Rename(temp, name)
}

// WriteTemp is the first half of WriteFile. It returns the name of a flushed temporary file, dir/base.*.tmp.
func (d Disk) WriteTemp(dir, base string, write func(*os.File) error) (temp string, err error) {
	f, err := os.CreateTemp(dir, base+".*"+tempSuffix)
	if err != nil {
		return "", err
	}
	return d.FinishTemp(f, write)
}

// LinkTemp calls link with the name of a temporary file like that of WriteTemp, and opens the file to which link gives
// this name: the content then needs no copy. The caller passes the file to [Disk.FinishTemp]. If it fails, no file remains.
func LinkTemp(dir, base string, link func(name string) error) (*os.File, error) {
	f, err := os.CreateTemp(dir, base+".*"+tempSuffix)
	if err != nil {
		return nil, err
	}
	name := f.Name()
	if err := errors.Join(f.Close(), os.Remove(name)); err != nil {
		return nil, err
	}
	if err := link(name); err != nil {
		return nil, err
	}
	if f, err = OpenRegular(name, os.O_RDWR|NoFollow); err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	return f, nil
}

// FinishTemp is WriteTemp for an existing temporary file: it calls write, then flushes and closes the file. It closes the file also
// after an error, and then removes it.
func (d Disk) FinishTemp(f *os.File, write func(*os.File) error) (temp string, err error) {
	if err = write(f); err == nil {
		err = d.Flush(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Rename is the second half of WriteFile: it renames a flushed temporary file, and flushes the directories of both names. If the rename
// fails, the temporary file is removed.
func (d Disk) Rename(temp, name string) error {
	dir, err := os.Open(filepath.Dir(name)) // before the rename, so that a failure changes nothing
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, name); err != nil {
		return errors.Join(err, os.Remove(temp), dir.Close())
	}
	err = d.closeDir(dir)
	if from := filepath.Dir(temp); err == nil && from != filepath.Dir(name) {
		err = d.FlushDir(from)
	}
	return err
}

const tempSuffix = ".tmp"

// RemoveTemps removes the temporary files in dir that killed processes have left. Their names begin with base. The caller must ensure
// that no other process or goroutine writes such a file at the same time, such as by a claim of the data directory.
func RemoveTemps(dir, base string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), base) && strings.HasSuffix(e.Name(), tempSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// MkdirAll makes a directory and its missing parents with mode 0700, and flushes the directories that contain them. If the name is not
// that of a directory, it returns an error.
func (d Disk) MkdirAll(name string) error {
	var above []string // directories in which an entry is missing
	for at, up := name, filepath.Dir(name); at != up; at, up = up, filepath.Dir(up) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = append(above, up)
	}
	err := os.MkdirAll(name, 0o700)
	if link := (*fs.PathError)(nil); errors.Is(err, fs.ErrExist) && errors.As(err, &link) {
		return fmt.Errorf("%s: symbolic link to nothing: %w", link.Path, fs.ErrNotExist)
	}
	for _, dir := range slices.Backward(above) {
		if err == nil {
			err = d.FlushDir(dir)
		}
	}
	return err
}
