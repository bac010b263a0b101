package modproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest is the SHA-256 of stored bytes. The zero value names nothing.
//
// It is written as 64 lower-case hexadecimal digits.
type Digest [sha256.Size]byte

// ParseDigest reads what [Digest.String] prints.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return Digest{}, err
	}
	return d, nil
}

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d names nothing.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; its error is [ErrInvalid].
func (d *Digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) || hex.EncodeToString(b) != string(text) {
		return fmt.Errorf("%w: digest %.80q: want 64 lower-case hexadecimal digits", ErrInvalid, text)
	}
	copy(d[:], b)
	return nil
}

// Sum names the content of a package: "h1:" and the base64 of a hash over the
// names and contents of its files, as package dirhash of golang.org/x/mod
// defines it. go.sum and the clients' provider lock file use the same form.
//
// Unlike a [Digest] it does not depend on how the content is packed.
type Sum string
