package modproxy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
)

// Body reads the stored bytes of a [Package]. It is for one goroutine.
//
// A cached package is verified while it is read from start to end: a Read returns an error instead of the last bytes if the
// digest differs. A caller that needs only a part, or describes the package without reading it, calls Verify first.
//
// A type that wraps a Body embeds the Body or forwards Verify. Seek never causes a verification.
type Body interface {
	io.ReadSeekCloser
	// Verify returns nil if all bytes have the digest of the package. Afterwards every part can be read, and a Read returns an
	// error instead of a byte that has changed since. Verify may rely on an earlier verification of the same bytes. It waits
	// for a package that is still being downloaded, and does not move the offset.
	//
	// Errors: that of ctx, and those of Read.
	Verify(ctx context.Context) error
}

// NewBody returns a Body that reads r. Its Verify reads all of r and compares the bytes with d. It does not verify other reads:
// use it for bytes that were hashed a moment ago, or that the next reader hashes.
func NewBody(r io.ReadSeekCloser, d Digest) Body { return hashedBody{r, d} }

type hashedBody struct {
	io.ReadSeekCloser
	digest Digest
}

func (b hashedBody) Verify(ctx context.Context) error {
	offset, err := b.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = b.Seek(0, io.SeekStart)
	}
	hash := sha256.New()
	for err == nil && ctx.Err() == nil {
		_, err = io.CopyN(hash, b.ReadSeekCloser, 1<<20)
	}
	switch {
	case err == nil:
		return ctx.Err()
	case err != io.EOF:
		return err
	}
	if is := Digest(hash.Sum(nil)); is != b.digest {
		return fmt.Errorf("%w: the bytes of %v have the digest %v", ErrUnavailable, b.digest, is)
	}
	_, err = b.Seek(offset, io.SeekStart)
	return err
}
