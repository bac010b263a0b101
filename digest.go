package modproxy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is the SHA-256 of stored bytes, written as 64 lower-case hexadecimal digits. The zero value is the digest of no
// content.
type Digest [sha256.Size]byte

// ParseDigest parses the result of [Digest.String].
func ParseDigest(s string) (Digest, error) {
	var d Digest
	err := d.UnmarshalText([]byte(s)) // does not change d if it fails
	return d, err
}

func (d Digest) String() string {
	var digits [2 * len(d)]byte
	hex.Encode(digits[:], d[:])
	return string(digits[:])
}

// IsZero reports whether d is the zero value.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. Its errors wrap [ErrInvalid].
func (d *Digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) || hex.EncodeToString(b) != string(text) {
		return fmt.Errorf("%w: digest %.80q: want 64 lower-case hexadecimal digits", ErrInvalid, text)
	}
	copy(d[:], b)
	return nil
}

// Sum identifies the content of a package, independent of its archive format. It is "h1:" and the base64 of a hash over the
// names and contents of its files, as package dirhash of golang.org/x/mod defines it. go.sum and the clients' provider lock
// file also use it.
type Sum string

// NewSum returns the Sum of a hash.
func NewSum(hash [sha256.Size]byte) Sum {
	return Sum("h1:" + base64.StdEncoding.EncodeToString(hash[:]))
}

// Hash returns the hash in s. Its errors wrap [ErrInvalid].
func (s Sum) Hash() (hash [sha256.Size]byte, err error) {
	encoded, ok := strings.CutPrefix(string(s), "h1:")
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || len(raw) != len(hash) || len(encoded) != base64.StdEncoding.EncodedLen(len(hash)) {
		return hash, fmt.Errorf("%w: sum %.80q: want h1: and the base64 of 32 bytes", ErrInvalid, s)
	}
	return [sha256.Size]byte(raw), nil
}
