package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const keyLength = 32

// keys sign package paths.
type keys struct {
	Current  []byte    `json:"current"`            // signs
	Previous []byte    `json:"previous,omitempty"` // is good for what it signed before it was replaced
	Replaced time.Time `json:"replaced,omitzero"`
}

func (k *keys) check() error {
	if len(k.Current) != keyLength || len(k.Previous) != 0 && len(k.Previous) != keyLength {
		return errDamaged
	}
	return nil
}

func newKeyFile(path string) *file[keys] {
	return &file[keys]{path: path, what: "key of the package paths", format: "modproxy key 1", check: (*keys).check}
}

// openKeys opens the keys at path, and makes them if there is no file.
func openKeys(ctx context.Context, path string, start time.Time) (*file[keys], error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode()&0o007 != 0:
		return nil, fmt.Errorf("%s: everybody on this machine may read or change it: take that away (chmod o= %s) and run modproxy key rotate twice", path, path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f := newKeyFile(path)
	if err := f.open(start); err != nil {
		return nil, err
	}
	return f, f.change(ctx, func(old *keys) (*keys, error) {
		if old.Current != nil {
			return nil, nil
		}
		return &keys{Current: newKey()}, nil
	})
}

func newKey() []byte {
	key := make([]byte, keyLength)
	rand.Read(key) // never fails
	return key
}

// RotateKey replaces the key at path by a new one, which signs from now on in every process that has it open.
// What was signed before stays good until it expires; after another rotation it does not. now is the wall
// clock's time.
//
// Its error is [modproxy.ErrUnavailable].
func RotateKey(ctx context.Context, path string, now time.Time) error {
	f := newKeyFile(path)
	if err := f.open(time.Now()); err != nil {
		return f.wrong(err)
	}
	return f.change(ctx, func(old *keys) (*keys, error) {
		if old.Current == nil {
			return nil, f.wrong(&fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist})
		}
		return &keys{Current: newKey(), Previous: old.Current, Replaced: now.UTC()}, nil
	})
}
