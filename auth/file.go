package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/filelock"
)

const (
	lookSoon  = 10 * time.Millisecond
	lookAgain = time.Second     // a more recent state is used without looking
	maxUnseen = 5 * time.Second // an older state is never used
	settling  = 2 * time.Second // a file that changed more recently is read again, because time stamps of file systems are coarse
	maxFile   = 8 << 20         // bytes
)

var (
	errGone    = errors.New("the file is missing: restore it, or restart modproxy to continue without it")
	errDamaged = errors.New("damaged or edited: restore its backup")
)

// file is a value of type T in a file that other processes may replace. A missing file has the zero value. A file that
// disappears is an error.
type file[T any] struct {
	path, format string
	what         string         // names the file in errors
	check        func(*T) error // checks and prepares a value after reading
	clock        Clock
	mu           sync.Mutex // held while looking at the file
	last         atomic.Pointer[seen[T]]
}

// seen is the state of a file at a time.
type seen[T any] struct {
	value   *T
	err     error
	at      time.Time   // of the look; with a monotonic reading
	info    fs.FileInfo // from before the read; nil: the file did not exist
	settled bool        // any later change would also change info
}

// openFile opens the file at path. The file need not exist.
func openFile[T any](path, what, format string, check func(*T) error) (*file[T], error) {
	f := &file[T]{path: path, what: what, format: format, check: check, clock: NewClock()}
	return f, f.read(&seen[T]{}, f.clock.start).err
}

// get returns the value of the file, at most maxUnseen old. While one caller looks at the file, others receive the previous
// value.
func (f *file[T]) get(now time.Time) (*T, error) {
	s := f.last.Load()
	switch age := now.Sub(s.at).Abs(); {
	case age >= maxUnseen:
		return f.look(now, lookAgain)
	case age >= lookAgain && f.mu.TryLock():
		defer f.mu.Unlock()
		s = f.read(s, now)
	}
	return s.value, f.wrong(s.err)
}

// look returns the value of the file. A value less than recent old counts, unless the file was replaced.
func (f *file[T]) look(now time.Time, recent time.Duration) (*T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.last.Load()
	if now.Sub(s.at).Abs() >= recent || f.replaced(s) {
		s = f.read(s, now)
	}
	return s.value, f.wrong(s.err)
}

// replaced reports whether the file at the path is another one. It is much cheaper than reading the file.
func (f *file[T]) replaced(s *seen[T]) bool {
	info, err := os.Stat(f.path)
	return err == nil && !s.has(info)
}

func (s *seen[T]) has(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.ModTime().Equal(info.ModTime()) && s.info.Size() == info.Size()
}

func (f *file[T]) wrong(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, f.what, err)
	}
	return err
}

func (f *file[T]) read(before *seen[T], now time.Time) *seen[T] {
	s := &seen[T]{value: new(T), at: now}
	defer f.last.Store(s)
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if before.info != nil || before.err != nil {
			s.err = fmt.Errorf("%s: %w", f.path, errGone)
		}
		return s
	case err == nil && before.settled && before.has(info):
		*s = *before
		s.at = now
		return s
	case err == nil:
		err = f.decode(s.value)
	}
	if err != nil {
		s.value, s.err = new(T), fmt.Errorf("%s: %w", f.path, err)
		return s
	}
	s.info, s.settled = info, time.Since(info.ModTime()) > settling
	return s
}

// sealed is the format of the files: the content, and its checksum without the white space between tokens.
type sealed struct {
	Format  string          `json:"format"`
	SHA256  modproxy.Digest `json:"sha256"`
	Content json.RawMessage `json:"content"`
}

// decode reads the file into value.
func (f *file[T]) decode(value *T) error {
	content, err := durable.ReadRegular(f.path, maxFile)
	if err != nil {
		return err
	}
	var s sealed
	var raw bytes.Buffer
	if decodeStrictly(content, &s) != nil || json.Compact(&raw, s.Content) != nil || sha256.Sum256(raw.Bytes()) != s.SHA256 {
		return errDamaged
	}
	if s.Format != f.format {
		return fmt.Errorf("the format is %.40q, and this modproxy reads %q", s.Format, f.format)
	}
	if err := decodeStrictly(raw.Bytes(), value); err != nil {
		return fmt.Errorf("%w: a newer modproxy wrote the file: use that version, or restore a backup of the file", err)
	}
	return f.check(value)
}

// decodeStrictly parses exactly one JSON value. Fields that v does not have are errors.
func decodeStrictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if _, after := d.Token(); err == nil && after != io.EOF {
		return errDamaged
	}
	return err
}

// change durably replaces the file by the result of edit, unless that is nil. A lock keeps other processes from changing it
// meanwhile. edit must not modify its argument. change returns the error of edit; other errors are [modproxy.ErrUnavailable].
func (f *file[T]) change(ctx context.Context, edit func(*T) (*T, error)) error {
	lock, err := openLock(f.path + ".lock")
	if err != nil {
		return f.wrong(err)
	}
	defer lock.Close() // Close unlocks
	if err = filelock.Lock(ctx, lock); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return f.wrong(err)
	}
	value, err := f.look(time.Now(), 0)
	if err != nil {
		return err
	}
	if value, err = edit(value); err != nil || value == nil {
		return err
	}
	if err = f.wrong(f.write(value)); err == nil {
		_, err = f.look(time.Now(), 0)
	}
	return err
}

func (f *file[T]) write(value *T) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(sealed{f.format, sha256.Sum256(raw), raw}, "", "\t")
	if err == nil && len(content) >= maxFile {
		err = fmt.Errorf("the file would be larger than %d bytes", maxFile)
	}
	if err != nil {
		return err
	}
	dir, base := filepath.Split(f.path)
	if err := durable.RemoveTemps(filepath.Clean(dir), base+"."); err != nil {
		return err
	}
	return durable.Disk{}.WriteFile(f.path, func(temp *os.File) error {
		_, err := temp.Write(append(content, '\n'))
		return errors.Join(err, durable.InheritOwner(temp))
	})
}

// openLock opens a file for locking. It creates the file if necessary, and changes the owner only of a file that it created.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL follows no link
	if errors.Is(err, fs.ErrExist) {
		return durable.OpenRegular(path, os.O_RDWR|durable.NoFollow)
	}
	if err == nil {
		err = durable.InheritOwner(f)
	}
	return f, err
}

// MakeDir creates dir with mode 0700 and its parent's owner, unless it exists. The error is [modproxy.ErrUnavailable].
func MakeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		var d *os.File
		if d, err = os.OpenFile(dir, os.O_RDONLY|durable.NoFollow, 0); err == nil {
			err = errors.Join(durable.InheritOwner(d), d.Close(), durable.Disk{}.FlushDir(filepath.Dir(dir)))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: directory of tokens: %w", modproxy.ErrUnavailable, err)
	}
	return nil
}
