package cache

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/modproxy/modproxy"
)

// memory holds the bytes of hot packages. Bytes count from when room for them
// was reserved until they are evicted and nobody reads them any more, so that
// slow readers cannot make it larger than its limit.
type memory struct {
	limit int64

	mu   sync.Mutex
	used int64 // with what is reserved, and what is read though evicted
	idle int64 // of used: what eviction would free
	lru  *simplelru.LRU[modproxy.Digest, *hot]
}

// hot is a checked package in memory. Its fields are guarded by memory.mu, but
// for data, which does not change.
type hot struct {
	memory  *memory
	data    []byte
	readers int
	evicted bool
}

func newMemory(limit int64) *memory {
	m := &memory{limit: limit}
	m.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ modproxy.Digest, h *hot) {
		h.evicted = true
		if h.readers == 0 {
			m.used -= int64(len(h.data))
			m.idle -= int64(len(h.data))
		}
	})
	return m
}

// largest is the size of the largest package that is held.
func (m *memory) largest() int64 { return m.limit / 8 }

// get is the package in memory, or nil. The caller opens it.
func (m *memory) get(d modproxy.Digest) *hot {
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
	return h
}

func (m *memory) remove(d modproxy.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(d)
}

func (m *memory) has(d modproxy.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lru.Contains(d)
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

// release is the end of one reader.
func (h *hot) release() {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	h.readers--
	switch {
	case h.readers > 0:
	case h.evicted:
		h.memory.used -= int64(len(h.data))
	default:
		h.memory.idle += int64(len(h.data))
	}
}

// hotReader reads a hot package; it is allocated with the package it is in.
type hotReader struct {
	bytes.Reader
	hot    *hot
	closed atomic.Bool
}

// open gives the reader that get counted.
func (h *hot) open(rec *PackageRecord) *modproxy.Package {
	p := &struct {
		modproxy.Package
		reader hotReader
	}{Package: describe(rec)}
	p.reader.hot = h
	p.reader.Reset(h.data)
	p.ReadSeekCloser = &p.reader
	return &p.Package
}

// Close lets go of the bytes; a second one does nothing.
func (r *hotReader) Close() error {
	if !r.closed.Swap(true) {
		r.hot.release()
	}
	return nil
}
