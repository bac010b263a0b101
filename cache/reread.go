package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"hash"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/modproxy/modproxy"
)

// pieceSize is how much of a checked blob is read at a time, in bytes.
const pieceSize = 128 << 10

// marks are what the check of a blob has read, up to its last part: the states of
// the blob's hash at the beginning of each piece, and at the end. With the bytes of a
// piece one state comes to the next. They do not change.
type marks struct {
	edge   int64    // of the last part, which is in none of the pieces
	states [][]byte // one more than there are pieces
}

// pieces are a blob as its check has read it: what was read a second time can be
// told from what was checked.
type pieces struct {
	*marks
	data []byte // of the piece that was read last
	at   int64  // which that is, when data is not nil
}

// from is what the piece with the byte at offset has from there on. The error is
// [ErrDamaged] when it is not what was checked.
func (p *pieces) from(blob io.ReadSeeker, offset int64) ([]byte, error) {
	at := offset / pieceSize
	if p.data == nil || p.at != at {
		size := min(pieceSize, p.edge-at*pieceSize)
		data := slices.Grow(p.data[:0], int(size))[:size]
		p.data = nil
		if _, err := blob.Seek(at*pieceSize, io.SeekStart); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(blob, data); err != nil {
			return nil, err
		}
		h := sha256.New()
		if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.states[at]); err != nil {
			return nil, err
		}
		h.Write(data)
		if !bytes.Equal(stateOf(h), p.states[at+1]) {
			return nil, ErrDamaged
		}
		p.data, p.at = data, at
	}
	return p.data[offset-at*pieceSize:], nil
}

// stateOf is what a SHA-256 depends on, as sha256.New documents it.
func stateOf(h hash.Hash) []byte {
	state, _ := h.(encoding.BinaryMarshaler).MarshalBinary() // of crypto/sha256 there is no error
	return state
}

// markSize is what the mark of a piece takes, in bytes.
const markSize = 160

// remembered are the marks of blobs that were checked as a whole, those that were
// used last, in maxMarks bytes.
type remembered struct {
	mu   sync.Mutex
	used int64
	lru  *simplelru.LRU[modproxy.Digest, *marks]
}

func newRemembered() *remembered {
	c := &remembered{}
	c.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ modproxy.Digest, m *marks) { c.used -= m.size() })
	return c
}

func (m *marks) size() int64 { return int64(len(m.states)+1) * markSize }

// get is nil when none are remembered.
func (c *remembered) get(d modproxy.Digest) *marks {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, _ := c.lru.Get(d)
	return m
}

func (c *remembered) add(d modproxy.Digest, m *marks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(d)
	c.lru.Add(d, m)
	for c.used += m.size(); c.used > maxMarks; {
		c.lru.RemoveOldest()
	}
}
