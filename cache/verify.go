package cache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/modproxy/modproxy"
)

// withheld is how much of a blob's end is given only after the digest has been
// checked, in bytes.
const withheld = 32 << 10

// verifier reads a blob and never gives all of one that is damaged. Read from
// its start, bytes are hashed as they go by, and the end is withheld until the
// digest is right. Read from elsewhere, the whole blob is checked first. Seek
// itself reads nothing: where reading begins counts.
//
// Who wants a part that begins at the start must not get it unchecked either.
// Such a one seeks to the start while being there, as http.ServeContent does for
// every range (and for the whole it does not: it comes back from the end). From
// then on the whole blob is checked first, too.
//
// What is read after the check is read a second time, and held to what the check
// has read there: the blob may have changed meanwhile.
//
// It is not safe for concurrent use.
type verifier struct {
	blob    Blob
	size    int64
	want    modproxy.Digest
	damaged func() // called once, when it turns out

	offset  int64     // of the next byte for the caller
	part    bool      // the caller may want a part that begins at the start
	hash    hash.Hash // of the bytes before hashed
	hashed  int64     // and the offset in the blob, while not checked
	checked bool
	pieces  *pieces // of the blob, checked; nil when nothing but the end is to be had
	tail    []byte  // the end, checked
	err     error   // what was found
}

func newVerifier(blob Blob, want modproxy.Digest, damaged func()) *verifier {
	return &verifier{blob: blob, size: blob.Size(), want: want, damaged: damaged, hash: sha256.New()}
}

func (v *verifier) Close() error { return v.blob.Close() }

// Seek implements [io.Seeker]. It reads nothing.
func (v *verifier) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += v.offset
	case io.SeekEnd:
		offset += v.size
	default:
		return 0, fmt.Errorf("%w: seek: whence %d", modproxy.ErrInvalid, whence)
	}
	if offset < 0 {
		return 0, fmt.Errorf("%w: seek to %d", modproxy.ErrInvalid, offset)
	}
	v.part = v.part || offset == 0 && v.offset == 0
	v.offset = offset
	return offset, nil
}

// Read implements [io.Reader].
func (v *verifier) Read(p []byte) (int, error) {
	switch {
	case v.err != nil:
		return 0, v.err
	case len(p) == 0:
		return 0, nil
	case v.offset >= v.size:
		if v.size > 0 {
			return 0, io.EOF
		}
		return 0, orEOF(v.check())
	}
	if !v.checked && v.offset == 0 && v.hashed != 0 {
		if err := v.rewind(); err != nil {
			return 0, err
		}
	}
	n, err := v.read(p)
	v.offset += int64(n)
	return n, err
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

func (v *verifier) read(p []byte) (int, error) {
	edge := v.edge()
	if !v.checked && v.offset == v.hashed && v.offset < edge && !v.part {
		n, err := v.blob.Read(p[:min(int64(len(p)), edge-v.offset)])
		v.hash.Write(p[:n])
		v.hashed += int64(n)
		if err != nil && n == 0 {
			return 0, v.broken(err)
		}
		return n, nil
	}
	switch {
	case v.offset < edge && v.pieces == nil:
		if err := v.checkPieces(); err != nil {
			return 0, err
		}
	case !v.checked:
		if err := v.check(); err != nil {
			return 0, err
		}
	}
	if v.offset >= edge {
		return copy(p, v.tail[v.offset-edge:]), nil
	}
	checked, err := v.pieces.from(v.blob, v.offset)
	if err != nil {
		return 0, v.broken(err)
	}
	return copy(p, checked), nil
}

// edge is where the end begins that is withheld.
func (v *verifier) edge() int64 { return max(0, v.size-withheld) }

// rewind begins hashing anew.
func (v *verifier) rewind() error {
	if _, err := v.blob.Seek(0, io.SeekStart); err != nil {
		return v.broken(err)
	}
	v.hash.Reset()
	v.hashed, v.checked = 0, false
	return nil
}

// checkPieces is check of all of the blob, of which any part can be read then.
func (v *verifier) checkPieces() error {
	if err := v.rewind(); err != nil {
		return err
	}
	pieces, err := hashPieces(v.hash, v.blob, v.edge())
	if err != nil {
		return v.broken(err)
	}
	v.hashed = v.edge()
	if err := v.check(); err != nil {
		return err
	}
	v.pieces = pieces
	return nil
}

// check reads what has not been hashed yet, keeps its end, and compares.
func (v *verifier) check() error {
	if v.err != nil || v.checked {
		return v.err
	}
	edge := v.edge()
	n, err := io.CopyN(v.hash, v.blob, edge-v.hashed)
	v.hashed += n
	if err != nil {
		return v.broken(err)
	}
	tail := make([]byte, v.size-edge)
	if _, err := io.ReadFull(v.blob, tail); err != nil {
		return v.broken(err)
	}
	var more [1]byte
	if n, err := io.ReadFull(v.blob, more[:]); n != 0 {
		return v.broken(fmt.Errorf("%w: longer than %d bytes", ErrDamaged, v.size))
	} else if !errors.Is(err, io.EOF) {
		return v.broken(err)
	}
	v.hash.Write(tail)
	v.hashed = v.size
	if modproxy.Digest(v.hash.Sum(nil)) != v.want {
		return v.broken(ErrDamaged)
	}
	v.checked, v.tail = true, tail
	return nil
}

// errUnreadable: the storage opened a blob and did not give its bytes.
var errUnreadable = errors.New("reading a kept package")

// broken is what every later Read answers. An end that comes early is damage.
func (v *verifier) broken(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%w: shorter than %d bytes", ErrDamaged, v.size)
	case !errors.Is(err, ErrDamaged):
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	}
	v.err = fmt.Errorf("%w: package: %w", modproxy.ErrUnavailable, err)
	v.damaged()
	return v.err
}
