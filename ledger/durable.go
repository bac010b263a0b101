package ledger

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// publish writes content to the name in the directory, durably, in place of what
// was there. When it fails what was there still is, unless flushed is set: then
// nobody knows.
func (l *Log) publish(name string, content io.Reader) (flushed bool, err error) {
	if flushed, err := l.prepare(name, content); err != nil {
		return flushed, err
	}
	return l.install(name)
}

// prepare is the first half of publish: it touches nothing that is there.
func (l *Log) prepare(name string, content io.Reader) (flushed bool, err error) {
	temp := l.path(name + tempSuffix)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	if _, err := io.Copy(f, content); err != nil {
		return false, errors.Join(err, f.Close(), os.Remove(temp))
	}
	if err := l.flush(f); err != nil {
		return true, errors.Join(err, f.Close(), os.Remove(temp))
	}
	return true, f.Close()
}

// install is the second half of publish.
func (l *Log) install(name string) (flushed bool, err error) {
	temp := l.path(name + tempSuffix)
	if err := os.Rename(temp, l.path(name)); err != nil {
		return false, errors.Join(err, os.Remove(temp))
	}
	return true, l.flush(l.root)
}

// removeTemps removes what was prepared and not installed, and the like.
func (l *Log) removeTemps() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), tempSuffix) {
			continue
		}
		if err := os.Remove(l.path(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// isFull tells whether err says that there is no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

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
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
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
