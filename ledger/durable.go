package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// publish writes content to the name in the directory, durably, in place of what
// was there. When it fails what was there still is, unless flushed is set: then
// nobody knows.
func (l *Log) publish(name string, content []byte) (flushed bool, err error) {
	temp := l.path(name + tempSuffix)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	if _, err := f.Write(content); err != nil {
		return false, errors.Join(err, f.Close(), os.Remove(temp))
	}
	if err := l.flush(f); err != nil {
		return true, errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return true, err
	}
	if err := os.Rename(temp, l.path(name)); err != nil {
		return false, errors.Join(err, os.Remove(temp))
	}
	return true, l.flush(l.root)
}

func (l *Log) flush(f *os.File) error {
	if err := l.sync(f); err != nil {
		return fmt.Errorf("flush %s: %w", f.Name(), err)
	}
	return nil
}

// makeDir makes a directory and the ones above it, durably.
func (l *Log) makeDir(name string) error {
	err := os.Mkdir(name, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(name) != name:
		if err := l.makeDir(filepath.Dir(name)); err != nil {
			return err
		}
		return l.makeDir(name)
	case err != nil:
		return err
	}
	f, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer f.Close()
	return l.flush(f)
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }
