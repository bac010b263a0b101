package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	keyFormat = "modproxy key 1"
	keyLength = 32
)

// keyFile are the keys that package paths are signed with.
type keyFile struct {
	Current  []byte    `json:"current"`            // signs
	Previous []byte    `json:"previous,omitempty"` // is good for what it signed before it was replaced
	Replaced time.Time `json:"replaced,omitzero"`
}

// keys are a keyFile, ready for use.
type keys struct {
	current  *macKey
	previous *macKey // nil if there is none
	replaced time.Time
}

func parseKeyFile(file []byte) (keyFile, error) {
	var f keyFile
	if err := unseal(keyFormat, file, &f); err != nil {
		return keyFile{}, err
	}
	if len(f.Current) != keyLength || len(f.Previous) != 0 && len(f.Previous) != keyLength {
		return keyFile{}, errDamaged
	}
	return f, nil
}

func parseKeys(file []byte) (*keys, error) {
	f, err := parseKeyFile(file)
	if err != nil {
		return nil, err
	}
	k := &keys{current: newMACKey(f.Current), replaced: f.Replaced}
	if len(f.Previous) > 0 {
		k.previous = newMACKey(f.Previous)
	}
	return k, nil
}

// macKey computes HMAC-SHA-256 under one key.
type macKey struct{ ready sync.Pool }

func newMACKey(key []byte) *macKey {
	return &macKey{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

func (k *macKey) mac(text []byte) (sum [macLength]byte) {
	h := k.ready.Get().(hash.Hash)
	h.Reset()
	h.Write(text)
	h.Sum(sum[:0])
	k.ready.Put(h)
	return sum
}

// openKeys opens the keys at path, and makes them if there are none.
func openKeys(path string, start time.Time) (*watched[*keys], error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := locked(path, func() error { return makeKeys(path) }); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case info.Mode()&0o007 != 0:
		return nil, fmt.Errorf("%s: everybody on this machine may read or change it: take that away (chmod o= %s) and run modproxy key rotate twice", path, path)
	}
	return watch(path, start, nil, parseKeys)
}

func makeKeys(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err // another process was faster
	}
	content, err := seal(keyFormat, keyFile{Current: newKey()})
	if err != nil {
		return err
	}
	return replace(path, content)
}

func newKey() []byte {
	key := make([]byte, keyLength)
	rand.Read(key) // never fails
	return key
}

// RotateKey replaces the key at path by a new one, which signs from now on in
// every process that has it open. What was signed before stays good until it
// expires; after another rotation it does not. now is the wall clock's time.
//
// Its error is [modproxy.ErrUnavailable].
func RotateKey(path string, now time.Time) error {
	err := locked(path, func() error {
		old, _, err := readFile(path)
		if err != nil {
			return err
		}
		before, err := parseKeyFile(old)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		content, err := seal(keyFormat, keyFile{Current: newKey(), Previous: before.Current, Replaced: now.UTC()})
		if err != nil {
			return err
		}
		return replace(path, content)
	})
	if err != nil {
		return fmt.Errorf("%w: key of the package paths: %w", modproxy.ErrUnavailable, err)
	}
	return nil
}
