package store

import (
	"bytes"
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/modproxy/modproxy"
)

// memory holds the bytes of the most recently used blobs by their digests. Bytes count from their reservation until
// they are dropped and no longer read, so that slow readers cannot make the memory exceed its limit.
type memory struct {
	limit int64

	mu   sync.Mutex
	used int64 // includes reservations, and dropped bytes that are being read
	idle int64 // part of used that can be freed
	lru  *simplelru.LRU[modproxy.Digest, *heldBytes]
}

// heldBytes is the content of a blob in memory. memory.mu guards its fields except data, which is immutable.
type heldBytes struct {
	data    []byte
	readers int
	dropped bool
}

func newMemory(limit int64) *memory {
	m := &memory{limit: limit}
	m.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ modproxy.Digest, h *heldBytes) {
		h.dropped = true
		if h.readers == 0 {
			m.used -= int64(len(h.data))
			m.idle -= int64(len(h.data))
		}
	})
	return m
}

// open returns a reader of a held blob, or nil.
func (m *memory) open(d modproxy.Digest) *memoryReader {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.lru.Get(d)
	if !ok {
		return nil
	}
	if h.readers == 0 {
		m.idle -= int64(len(h.data))
	}
	h.readers++
	r := &memoryReader{memory: m, held: h}
	r.Reset(h.data)
	return r
}

// get returns the bytes of a held blob, or nil.
func (m *memory) get(d modproxy.Digest) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h, ok := m.lru.Get(d); ok {
		return h.data
	}
	return nil
}

func (m *memory) remove(d modproxy.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(d)
}

// reserve reserves n more bytes, and drops blobs if necessary. It returns false if too many bytes are being read. A
// negative n ends a reservation.
func (m *memory) reserve(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used-m.idle+n > m.limit {
		return false
	}
	for m.used+n > m.limit {
		m.lru.RemoveOldest()
	}
	m.used += n
	return true
}

// add holds data that has a reservation.
func (m *memory) add(d modproxy.Digest, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(d)
	m.idle += int64(len(data))
	m.lru.Add(d, &heldBytes{data: data})
}

// memoryReader reads a held blob.
type memoryReader struct {
	bytes.Reader
	memory *memory
	held   *heldBytes
	closed atomic.Bool
}

// Verify implements [modproxy.Body]. The bytes were verified before they were added to the memory.
func (r *memoryReader) Verify(context.Context) error { return nil }

// Close may be called several times.
func (r *memoryReader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	h, m := r.held, r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	h.readers--
	switch {
	case h.readers > 0:
	case h.dropped:
		m.used -= int64(len(h.data))
	default:
		m.idle += int64(len(h.data))
	}
	return nil
}
