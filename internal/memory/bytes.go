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

// memory holds bytes under the digests of blobs, those that were used last. They count from when room for them was
// reserved until they are dropped and not read any more: slow readers cannot make it larger than its limit.
type memory struct {
	limit int64

	mu   sync.Mutex
	used int64 // with what is reserved, and what is read though dropped
	idle int64 // of used: what dropping would free
	lru  *simplelru.LRU[modproxy.Digest, *heldBytes]
}

// heldBytes is bytes in memory. Its fields are guarded by memory.mu, except data, which does not change.
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

// open returns a reader of what is held, or nil.
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

// get returns what is held, or nil.
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

// reserve makes room for n bytes more, unless too much is being read; for fewer if n is negative.
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

// add holds data, for which room was reserved.
func (m *memory) add(d modproxy.Digest, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(d)
	m.idle += int64(len(data))
	m.lru.Add(d, &heldBytes{data: data})
}

// memoryReader reads what is held.
type memoryReader struct {
	bytes.Reader
	memory *memory
	held   *heldBytes
	closed atomic.Bool
}

// Verify implements [modproxy.Body]. The bytes were verified before they were added to the memory.
func (r *memoryReader) Verify(context.Context) error { return nil }

// Close does nothing the second time.
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
