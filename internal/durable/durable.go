// Package durable changes files so that the change survives a power cut once the call has returned, and opens
// files in directories whose owner need not be trusted.
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

// ErrSync is wrapped by errors of flushes. Nothing is known after one: the change may be on the disk or not,
// and another flush of the same file may succeed without writing anything.
var ErrSync = errors.New("cannot flush to the disk")

// Disk makes changes durable. The zero value is ready to use.
type Disk struct {
	// Sync flushes an open file or directory. Nil is (*os.File).Sync; tests replace it.
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

// FlushDir flushes the names in a directory, where the system and the file system can do that. Its error is [ErrSync].
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

// WriteFile replaces the file with the given name by what write writes. After a power cut there is the whole
// old file or the whole new one, and the new one once WriteFile has returned nil. When the error is not
// [ErrSync] the old file is still there. The mode of the new file is 0600, unless write changes it.
//
// The file is written to a temporary one, which is flushed and renamed; then the directory is flushed.
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

// LinkTemp opens a file to which link gives the name of a temporary one, like that of WriteTemp. When it fails there is none.
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

// FinishTemp is WriteTemp for a temporary file that is there: it has write write to it, flushes it and closes it.
func (d Disk) FinishTemp(f *os.File, write func(*os.File) error) (temp string, err error) {
	if err = write(f); err == nil {
		err = d.Flush(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Rename is the second half of WriteFile. When it fails there is no temporary file.
func (d Disk) Rename(temp, name string) error {
	dir, err := os.Open(filepath.Dir(name)) // now: when that fails nothing has changed
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

// RemoveTemps removes the temporary files in dir that a process has left which was killed. Their names begin
// with base. The caller has the lock under which such files are made.
func RemoveTemps(dir, base string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), base) && strings.HasSuffix(e.Name(), tempSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// MkdirAll makes a directory, and those above it, with mode 0700. Something else by the name is an error.
func (d Disk) MkdirAll(name string) error {
	var above []string // where something is missing
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
