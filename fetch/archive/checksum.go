package archive

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"io"
	"strings"
)

// A Checksum is what a location says that the bytes of its archive hash to.
type Checksum struct {
	name string
	hash func() hash.Hash
	want []byte
}

var checksums = []Checksum{
	{name: "md5", hash: md5.New},
	{name: "sha1", hash: sha1.New},
	{name: "sha256", hash: sha256.New},
	{name: "sha512", hash: sha512.New},
}

// ParseChecksum reads the argument checksum of a location's query: md5:, sha1:, sha256:
// or sha512: and hexadecimal digits, or the digits alone, whose number then tells
// which it is (go-getter's checksum.go). That a file elsewhere has the checksum,
// file:, is refused. Its error is [modproxy.ErrInvalid].
func ParseChecksum(s string) (*Checksum, error) {
	name, digits, named := strings.Cut(s, ":")
	if !named {
		name, digits = "", s
	}
	if name == "file" {
		return nil, refuse("checksum: one that is in a file elsewhere (file:) is not looked up: give its digits")
	}
	want, err := hex.DecodeString(digits)
	if err != nil {
		return nil, refuse("checksum: want hexadecimal digits")
	}
	known := false
	for _, c := range checksums {
		fits := len(want) == c.hash().Size()
		switch {
		case named && name == c.name && !fits:
			return nil, refuse("checksum: %d digits are not a %s", len(digits), name)
		case fits && (!named || name == c.name):
			c.want = want
			return &c, nil
		}
		known = known || name == c.name
	}
	if named {
		return nil, refuse("checksum: %.20q is none of md5, sha1, sha256 and sha512", name)
	}
	return nil, refuse("checksum: %d digits are none of an md5, sha1, sha256 or sha512", len(digits))
}

// Verify reads the first size bytes of f and compares. Errors are those of [Unpack].
func (c *Checksum) Verify(ctx context.Context, f io.ReaderAt, size int64) error {
	h := c.hash()
	if _, err := io.CopyBuffer(h, io.NewSectionReader(&input{ctx: ctx, f: f}, 0, size), make([]byte, 128<<10)); err != nil {
		return err
	}
	if got := h.Sum(nil); subtle.ConstantTimeCompare(got, c.want) != 1 {
		return refuse("its %s is %x, but the location says %x", c.name, got, c.want)
	}
	return nil
}
