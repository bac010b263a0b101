package memory

import (
	"bytes"
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Bytes caches content that several readers read at the same time. It counts the size of a content from the time when room for
// it was reserved until it was dropped and no reader reads it any more, so that slow readers cannot make it larger than its
// limit. The least recently used content is dropped first. It is safe for concurrent use.
type Bytes[K comparable] struct {
	limit int64

	mu   sync.Mutex
	used int64 // with reservations, and with dropped content that is still read
	idle int64 // the part of used that dropping would free
	lru  *simplelru.LRU[K, *content]
}

// content is guarded by Bytes.mu, except data, which is immutable.
type content struct {
	data    []byte
	readers int
	dropped bool
}

// NewBytes returns a cache of at most limit bytes.
func NewBytes[K comparable](limit int64) *Bytes[K] {
	b := &Bytes[K]{limit: limit}
	b.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ K, c *content) {
		c.dropped = true
		if c.readers == 0 {
			b.used -= int64(len(c.data))
			b.idle -= int64(len(c.data))
		}
	})
	return b
}

// Limit returns the limit in bytes.
func (b *Bytes[K]) Limit() int64 { return b.limit }

// Usage returns the bytes in use, and the part of them that could be dropped.
func (b *Bytes[K]) Usage() (used, idle int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.idle
}

// Open returns a reader of the content of k, or nil. The caller must close it.
func (b *Bytes[K]) Open(k K) *Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.lru.Get(k)
	if !ok {
		return nil
	}
	if c.readers == 0 {
		b.idle -= int64(len(c.data))
	}
	c.readers++
	r := &Reader{leave: func() { b.leave(c) }}
	r.Reset(c.data)
	return r
}

// Get returns the content of k, or nil. It must not be changed. Unlike for Open, the content does not count as read: after it was
// dropped, its memory is not counted.
func (b *Bytes[K]) Get(k K) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.lru.Get(k); ok {
		return c.data
	}
	return nil
}

// Drop removes the content of k.
func (b *Bytes[K]) Drop(k K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lru.Remove(k)
}

// Reserve makes room for n more bytes, or frees a reservation if n is negative. It reports false if readers use too much of the
// limit.
func (b *Bytes[K]) Reserve(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used-b.idle+n > b.limit {
		return false
	}
	for b.used+n > b.limit {
		b.lru.RemoveOldest()
	}
	b.used += n
	return true
}

// Add stores data. The caller must have reserved exactly len(data) bytes, and have verified data. The reservation becomes the size of the
// content; the content that k had is dropped. If the data does not arrive, the caller frees the reservation with Reserve instead.
func (b *Bytes[K]) Add(k K, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lru.Remove(k)
	b.idle += int64(len(data))
	b.lru.Add(k, &content{data: data})
}

func (b *Bytes[K]) leave(c *content) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.readers--
	switch {
	case c.readers > 0:
	case c.dropped:
		b.used -= int64(len(c.data))
	default:
		b.idle += int64(len(c.data))
	}
}

// Reader reads content in memory. It implements modproxy.Body.
type Reader struct {
	bytes.Reader
	leave  func()
	closed atomic.Bool
}

// Verify returns nil: the caller of Add has verified the content.
func (r *Reader) Verify(context.Context) error { return nil }

// Close has no effect the second time.
func (r *Reader) Close() error {
	if !r.closed.Swap(true) {
		r.leave()
	}
	return nil
}
