package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/modproxy/modproxy"
)

// sealed is the form of the files: content, and a checksum of it without the
// white space between its tokens.
type sealed struct {
	Format  string          `json:"format"`
	SHA256  modproxy.Digest `json:"sha256"`
	Content json.RawMessage `json:"content"`
}

var errDamaged = errors.New("damaged, or changed by hand: put its backup back")

func seal(format string, content any) ([]byte, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	file, err := json.MarshalIndent(sealed{format, sha256.Sum256(raw), raw}, "", "\t")
	if err == nil && len(file) >= maxFile {
		err = fmt.Errorf("the file would be larger than %d bytes", maxFile)
	}
	return append(file, '\n'), err
}

func unseal(format string, file []byte, content any) error {
	var s sealed
	if err := decode(file, &s); err != nil {
		return errDamaged
	}
	var raw bytes.Buffer
	switch err := json.Compact(&raw, s.Content); {
	case err != nil || sha256.Sum256(raw.Bytes()) != s.SHA256:
		return errDamaged
	case s.Format != format:
		return fmt.Errorf("the format is %.40q, and this modproxy reads %q", s.Format, format)
	}
	return decode(raw.Bytes(), content)
}

// decode takes one JSON value that says nothing that is not understood.
func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errDamaged
	}
	return nil
}

// replace writes content in place of the file at path, durably: after a power cut
// there is the whole old file or the whole new one, and the new one once replace
// has returned. It is called with the lock on path held, and removes what one that
// was killed has left.
func replace(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := removeLeft(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, adopt(f, dir), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// removeLeft removes the files that replace makes before it renames one to path. They
// may have secrets that nobody knows of.
func removeLeft(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && strings.HasPrefix(entry.Name(), "."+filepath.Base(path)+".") {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), entry.Name())))
		}
	}
	return err
}

// MakeDir makes the directory for the files, unless it is there. It is its owner's
// only, who is the owner of the directory that it is in.
//
// Its error is [modproxy.ErrUnavailable].
func MakeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	var d *os.File
	if err == nil {
		d, err = os.OpenFile(dir, os.O_RDONLY|noFollow, 0)
	}
	if err == nil {
		err = errors.Join(adopt(d, filepath.Dir(dir)), d.Close(), syncDir(filepath.Dir(dir)))
	}
	if err != nil {
		return fmt.Errorf("%w: directory of tokens: %w", modproxy.ErrUnavailable, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// locked runs change while no other process runs it for the same path.
func locked(path string, change func() error) (err error) {
	f, err := openLock(path + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }() // which unlocks
	if err := lock(f); err != nil {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return change()
}

// openLock opens a file to lock, and makes it where there is none. Who owns the
// directory need not be trusted by who runs this: a link is not followed, and only a
// file that was made here is given away.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // follows no link
	if err == nil {
		if err := adopt(f, filepath.Dir(path)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if f, err = os.OpenFile(path, os.O_RDWR|noFollow, 0); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "lock", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
