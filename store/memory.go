package store

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/modproxy/modproxy"
)

// memory holds bytes under the digests of blobs, those that were used last. Bytes count from when room for them was reserved
// until they are dropped and nobody reads them any more, so that slow readers cannot
// make it larger than its limit.
type memory struct {
	limit int64

	mu   sync.Mutex
	used int64 // with what is reserved, and what is read though dropped
	idle int64 // of used: what dropping would free
	lru  *simplelru.LRU[modproxy.Digest, *hot]
}

// hot is bytes in memory. Its fields are guarded by memory.mu, but for data, which does
// not change.
type hot struct {
	memory  *memory
	data    []byte
	readers int
	dropped bool
}

func newMemory(limit int64) *memory {
	m := &memory{limit: limit}
	m.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ modproxy.Digest, h *hot) {
		h.dropped = true
		if h.readers == 0 {
			m.used -= int64(len(h.data))
			m.idle -= int64(len(h.data))
		}
	})
	return m
}

// largest is the size of the largest blob that is held.
func (m *memory) largest() int64 { return m.limit / 8 }

// open returns a reader of what is held, or nil.
func (m *memory) open(d modproxy.Digest) *hotReader {
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
	r := &hotReader{hot: h}
	r.Reset(h.data)
	return r
}

func (m *memory) remove(d modproxy.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(d)
}

// reserve makes room for n bytes more, unless too much is being read.
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

// free gives back what was reserved.
func (m *memory) free(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
}

// add holds data, for which room was reserved.
func (m *memory) add(d modproxy.Digest, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(d)
	m.idle += int64(len(data))
	m.lru.Add(d, &hot{memory: m, data: data})
}

// get returns what is held, or nil.
func (m *memory) get(d modproxy.Digest) []byte {
	r := m.open(d)
	if r == nil {
		return nil
	}
	defer r.Close()
	return r.hot.data
}

// hotReader reads what is held.
type hotReader struct {
	bytes.Reader
	hot    *hot
	closed atomic.Bool
}

// Close lets go of the bytes; a second one does nothing.
func (r *hotReader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	h, m := r.hot, r.hot.memory
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
