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

// A Checksum is the checksum of an archive that a location gives.
type Checksum struct {
	name string
	hash func() hash.Hash
	want []byte
}

var checksums = []Checksum{{"md5", md5.New, nil}, {"sha1", sha1.New, nil}, {"sha256", sha256.New, nil}, {"sha512", sha512.New, nil}}

// ParseChecksum reads the argument checksum of a location's query: md5:, sha1:, sha256: or sha512: and hexadecimal
// digits, or only the digits, whose number determines the algorithm (go-getter's checksum.go). The name of a file with
// the checksum (file:) is refused. The error is [modproxy.ErrInvalid].
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
	for _, c := range checksums {
		if len(want) == c.hash().Size() && (!named || name == c.name) {
			c.want = want
			return &c, nil
		}
	}
	return nil, refuse("checksum: algorithm %.20q and %d digits: want an md5, sha1, sha256 or sha512", name, len(digits))
}

// Verify reads the first size bytes of f and compares their hash. Its errors are those of [Unpack].
func (c *Checksum) Verify(ctx context.Context, f io.ReaderAt, size int64) error {
	h := c.hash()
	if _, err := io.Copy(h, io.NewSectionReader(&input{ctx: ctx, f: f}, 0, size)); err != nil {
		return err
	}
	if got := h.Sum(nil); subtle.ConstantTimeCompare(got, c.want) != 1 {
		return refuse("its %s is %x, but the location says %x", c.name, got, c.want)
	}
	return nil
}
