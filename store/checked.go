package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	pieceSize = 64 << 10 // bytes of a blob that are read at a time
	withheld  = 32 << 10 // minimum bytes in the last piece, if the blob is that large
	maxStates = 16 << 20 // bytes of remembered hash states: 1/600 of the bytes of the checked blobs
)

// checkedReader reads a large blob for [Store.Open]. It hashes the bytes while they are read from start to end. It verifies
// the whole blob before it returns a part from elsewhere, or when the caller calls Verify. It does not hash a trusted blob,
// see [checks].
type checkedReader struct {
	blob   Blob
	size   int64
	want   modproxy.Digest
	checks *checks
	failed func(error) // called once, when the blob is found damaged or unreadable
	close  func()      // called once
	closed atomic.Bool

	stamp   Stamp     // of the blob, before this reader read any of it; zero if the blob has none
	opened  time.Time // when stamp was read
	trusted bool      // the whole content with this stamp was checked
	sent    bool      // bytes of the blob were sent without being hashed
	hashed  int64     // number of pieces that this reader has hashed since opened, in sequence from the first

	offset   int64 // of the next byte for the caller
	streamed int64 // how far the caller has read from the start without a check
	checkAll bool  // the next Read verifies the whole blob first

	states   []byte // known states of the blob's hash at the start of each piece, concatenated
	verified bool   // all states are known, and the last one leads to the digest
	data     []byte // of the piece that was read last; nil if no piece was read
	at       int64  // number of that piece
	err      error  // returned by every later Read
}

// A Checker opens blobs outside a store as [Store.Open] opens large blobs. It is safe for concurrent use.
type Checker struct{ checks *checks }

// NewChecker returns a Checker.
func NewChecker() Checker { return Checker{newChecks(0)} }

// Open returns a reader of blob. Closing the reader closes blob. If the bytes do not have the digest d or cannot be read, the
// reader returns [modproxy.ErrUnavailable] instead of the last bytes or earlier, also if they change while they are read.
func (c Checker) Open(blob Blob, d modproxy.Digest) modproxy.Body {
	return newCheckedReader(blob, d, c.checks, false)
}

// newCheckedReader returns a reader of blob. If again is true, it ignores the results of earlier checks.
func newCheckedReader(blob Blob, want modproxy.Digest, checks *checks, again bool) *checkedReader {
	c := &checkedReader{blob: blob, size: blob.Size(), want: want, checks: checks}
	c.begin()
	if again {
		return c
	}
	c.trusted = checks.know(want, c.stamp)
	if states := checks.states.Get(want); states != nil {
		c.states, c.verified = states, true
	}
	return c
}

// begin resets the reader, so that it does not rely on earlier results.
func (c *checkedReader) begin() {
	c.opened, c.stamp = time.Now(), stampOf(c.blob)
	c.trusted, c.hashed = false, 0
	c.states, c.verified, c.data = stateOf(sha256.New()), false, nil
}

// Close may be called several times.
func (c *checkedReader) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.close != nil {
		defer c.close()
	}
	return c.blob.Close()
}

// Verify implements [modproxy.Body]. It relies on an earlier verification of the blob, if there was one.
func (c *checkedReader) Verify(ctx context.Context) error {
	c.checkAll = true
	return c.check(ctx)
}

// Seek does not read the blob.
func (c *checkedReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += c.offset
	case io.SeekEnd:
		offset += c.size
	default:
		return 0, fmt.Errorf("%w: seek: whence %d", modproxy.ErrInvalid, whence)
	}
	if offset < 0 {
		return 0, fmt.Errorf("%w: seek to %d", modproxy.ErrInvalid, offset)
	}
	c.offset = offset
	return offset, nil
}

func (c *checkedReader) Read(p []byte) (int, error) {
	if c.err != nil || len(p) == 0 {
		return 0, c.err
	}
	if n := c.readTrusted(p); n > 0 {
		return n, nil
	}
	if c.checkAll || c.offset != c.streamed || c.size == 0 {
		if err := c.check(context.Background()); err != nil {
			return 0, err
		}
	}
	if c.offset >= c.size {
		return 0, io.EOF
	}
	at := min(c.offset/pieceSize, c.last())
	if c.data == nil || c.at != at {
		if err := c.load(at); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.data[c.offset-at*pieceSize:])
	if c.offset == c.streamed {
		c.streamed += int64(n)
	}
	c.offset += int64(n)
	return n, nil
}

// last returns the number of the last piece. The first one is 0.
func (c *checkedReader) last() int64 { return max(0, c.size-withheld) / pieceSize }

// check reads what has not been hashed yet, and compares. It can be called again if ctx ended.
func (c *checkedReader) check(ctx context.Context) error {
	for c.err == nil && !c.verified && !c.trusted {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_ = c.load(int64(len(c.states)/stateSize - 1)) // load records the error
	}
	return c.err
}

// load reads a piece whose state is known. The piece must lead to the next state, the last one to the digest.
func (c *checkedReader) load(at int64) error {
	begin, end := at*pieceSize, (at+1)*pieceSize
	if at == c.last() {
		end = c.size
	}
	if int64(cap(c.data)) < end-begin {
		c.data = make([]byte, min(c.size, pieceSize+withheld))
	}
	data := c.data[:end-begin]
	if _, err := c.blob.Seek(begin, io.SeekStart); err != nil {
		return c.fail(err)
	}
	if _, err := io.ReadFull(c.blob, data); err != nil {
		return c.fail(err)
	}
	h := sha256.New()
	next := int(at+1) * stateSize
	_ = h.(encoding.BinaryUnmarshaler).UnmarshalBinary(c.states[next-stateSize : next]) // a valid state returns no error
	h.Write(data)
	switch {
	case at == c.last():
		if is := modproxy.Digest(h.Sum(nil)); is != c.want {
			return c.fail(fmt.Errorf("%w: the bytes have the digest %s", ErrDamaged, is))
		}
		// For a blob of one piece, states save nothing.
		if size := int64(len(c.states)); !c.verified && at > 0 && c.checks.states.Reserve(size) {
			c.checks.states.Add(c.want, c.states)
		}
		c.verified = true
	case next == len(c.states):
		c.states = append(c.states, stateOf(h)...)
	case !bytes.Equal(stateOf(h), c.states[next:next+stateSize]):
		return c.fail(ErrDamaged)
	}
	c.data, c.at = data, at
	if at == c.hashed {
		if c.hashed++; at == c.last() {
			c.trusted = c.checks.trust(c.want, c.stamp, stampOf(c.blob), c.opened)
		}
	}
	return nil
}

var stateSize = len(stateOf(sha256.New()))

// stateOf returns the state of a SHA-256 hash, as sha256.New documents it.
func stateOf(h hash.Hash) []byte {
	state, _ := h.(encoding.BinaryMarshaler).MarshalBinary() // crypto/sha256 returns no error
	return state
}

// fail records the error that every later Read returns. An early end is damage.
func (c *checkedReader) fail(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%w: shorter than %d bytes", ErrDamaged, c.size)
	case !errors.Is(err, ErrDamaged):
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	c.checks.stamps.Drop(c.want)
	c.data, c.err = nil, fmt.Errorf("%w: blob %v: %w", modproxy.ErrUnavailable, c.want, err)
	if c.failed != nil {
		c.failed(c.err)
	}
	return c.err
}
