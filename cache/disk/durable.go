package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// publish writes content to name, durably, in place of what was there.
func (s *Store) publish(name string, mode fs.FileMode, content []byte) error {
	temp, err := s.writeTemp(mode, bytes.NewReader(content))
	if err != nil {
		return err
	}
	return s.rename(temp, name)
}

// writeTemp writes a durable temporary file and is its name.
func (s *Store) writeTemp(mode fs.FileMode, content io.Reader) (name string, err error) {
	f, err := os.CreateTemp(s.path(tempName), tempPattern)
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			os.Remove(f.Name()) // else the next Open does
		}
	}()
	if _, err := io.Copy(f, content); err != nil {
		return "", err
	}
	if err := f.Chmod(mode); err != nil {
		return "", err
	}
	return f.Name(), s.flush(f)
}

// rename moves a durable temporary file to name, durably. When it fails the
// temporary file is gone; whether name is there is open.
func (s *Store) rename(temp, name string) error {
	if err := os.Rename(temp, name); err != nil {
		os.Remove(temp)
		return err
	}
	return errors.Join(s.flushDir(filepath.Dir(name)), s.flushDir(filepath.Dir(temp)))
}

func (s *Store) flush(f *os.File) error {
	if err := s.sync(f); err != nil {
		return s.health.fail(fmt.Errorf("%w: %s: %w", errFlush, f.Name(), err))
	}
	return nil
}

func (s *Store) flushDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.flush(f)
}

// makeDir makes a directory and the ones above it, durably.
func (s *Store) makeDir(name string) error {
	err := os.Mkdir(name, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(name) != name:
		if err := s.makeDir(filepath.Dir(name)); err != nil {
			return err
		}
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	}
	return s.flushDir(filepath.Dir(name))
}

// fan is the directory name/ab, which it makes if it must. It is durable when fan
// returns, although another goroutine may have made it.
func (s *Store) fan(name, ab string) (string, error) {
	dir := s.path(name, ab)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fans[dir] {
		return dir, nil
	}
	if err := s.makeDir(dir); err != nil {
		return "", err
	}
	if err := s.flushDir(filepath.Dir(dir)); err != nil {
		return "", err
	}
	s.fans[dir] = true
	return dir, nil
}
