package cache

import (
	"crypto/sha256"
	"encoding"
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
// has read there: the blob may have changed meanwhile. In the same way a part is held
// to what an earlier check of all of the blob has read, so that not every part costs
// another one.
//
// It is not safe for concurrent use.
type verifier struct {
	blob    Blob
	size    int64
	want    modproxy.Digest
	damaged func() // called once, when it turns out
	known   *marks // of an earlier check; nil: there was none that is remembered
	learn   func(*marks)

	offset  int64     // of the next byte for the caller
	part    bool      // the caller may want a part that begins at the start
	hash    hash.Hash // of the bytes before hashed
	hashed  int64     // and the offset in the blob, while not checked
	states  [][]byte  // of the hash, so far
	checked bool
	pieces  *pieces // of the blob, checked; nil when nothing but the end is to be had
	tail    []byte  // the end, checked
	err     error   // what was found
}

func newVerifier(blob Blob, want modproxy.Digest, damaged func()) *verifier {
	v := &verifier{blob: blob, size: blob.Size(), want: want, damaged: damaged, hash: sha256.New()}
	v.mark()
	return v
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
		n, err := v.blob.Read(p[:min(int64(len(p)), v.toMark())])
		v.hash.Write(p[:n])
		v.advance(int64(n))
		if err != nil && n == 0 {
			return 0, v.broken(err)
		}
		return n, nil
	}
	if !v.checked && v.offset < edge {
		if err := v.rewind(); err != nil {
			return 0, err
		}
	}
	if err := v.check(); err != nil {
		return 0, err
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
	v.hashed, v.states, v.checked = 0, nil, false
	v.mark()
	return nil
}

// toMark is how many bytes there are to the next mark.
func (v *verifier) toMark() int64 { return min(pieceSize-v.hashed%pieceSize, v.edge()-v.hashed) }

// advance is n bytes having been hashed, up to the next mark at most.
func (v *verifier) advance(n int64) {
	v.hashed += n
	if n > 0 && (v.hashed%pieceSize == 0 || v.hashed == v.edge()) {
		v.mark()
	}
}

func (v *verifier) mark() { v.states = append(v.states, stateOf(v.hash)) }

// check reads what has not been hashed yet, or where that is known no more than the
// end, keeps the end, and compares. Any part can be read then.
func (v *verifier) check() error {
	if v.err != nil || v.checked {
		return v.err
	}
	edge := v.edge()
	if v.known != nil && v.hashed == 0 {
		if err := v.jump(edge); err != nil {
			return v.broken(err)
		}
	}
	for v.hashed < edge {
		n, err := io.CopyN(v.hash, v.blob, v.toMark())
		v.advance(n)
		if err != nil {
			return v.broken(err)
		}
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
	m := v.known
	if m == nil {
		m = &marks{edge, v.states}
		if v.learn != nil {
			v.learn(m)
		}
	}
	v.pieces = &pieces{marks: m}
	return nil
}

// jump goes to the edge, where an earlier check has come to.
func (v *verifier) jump(edge int64) error {
	if _, err := v.blob.Seek(edge, io.SeekStart); err != nil {
		return err
	}
	v.hashed = edge
	return v.hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(v.known.states[len(v.known.states)-1])
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
