package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"hash"
	"io"
	"slices"
)

// pieceSize is how much of a checked blob is read at a time, in bytes.
const pieceSize = 128 << 10

// pieces are a blob, up to its last part, as the check has read it: what was
// read a second time can be told from what was checked. What is kept of a piece
// is the state of the blob's hash before it; with the bytes of the piece it comes
// to the state before the next.
type pieces struct {
	edge   int64    // of the last part, which is none of them
	states [][]byte // one more than there are pieces
	data   []byte   // of the piece that was read last
	at     int64    // which that is, when data is not nil
}

// hashPieces hashes the blob from where it is, its start, to edge.
func hashPieces(h hash.Hash, blob io.Reader, edge int64) (*pieces, error) {
	p := &pieces{edge: edge}
	for at := int64(0); ; at += pieceSize {
		p.states = append(p.states, stateOf(h))
		if at >= edge {
			return p, nil
		}
		if _, err := io.CopyN(h, blob, min(pieceSize, edge-at)); err != nil {
			return nil, err
		}
	}
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
