// Package memory caches values that are expensive to compute, in bounded memory.
//
//	cache := memory.Cache[string, Answer]{Limit: 64 << 20}
//	remember := cache.Begin(key)
//	answer := lookUp(key)
//	remember(answer, time.Minute, size)
//
// [Bytes] caches content that several readers read at the same time.
//
// Invariant: if a key was dropped or added after Begin, remember does not store its value, which may be out of date.
package memory

import (
	"cmp"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	maxKnown = 16 << 10 // values in a [Cache] without Max

	// Forever is the duration for a value that does not expire.
	Forever time.Duration = math.MaxInt64
)

// Cache stores values, each for a limited time. The number of values is bounded, and their size if Limit is set. The
// least recently used values are removed first. The zero value is an empty cache. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	// The limits must be set before the first use.
	Limit int64 // bytes of all values; zero means no limit
	Max   int   // number of values; zero means 16384

	mu    sync.Mutex
	known *simplelru.LRU[K, *remembered[V]]
	used  int64 // bytes
}

// remembered is a value with its expiry time. The time comes from time.Now, so that changes of the wall clock do not
// affect it.
type remembered[V any] struct {
	value   V
	until   time.Time
	forever bool // until does not count
	bytes   int64
}

func newRemembered[V any](v V, d time.Duration, bytes int64) *remembered[V] {
	return &remembered[V]{v, time.Now().Add(d), d == Forever, bytes}
}

func (e *remembered[V]) isValid() bool { return e.forever || time.Now().Before(e.until) }

func (c *Cache[K, V]) lock() {
	c.mu.Lock()
	if c.known == nil {
		c.known, _ = simplelru.NewLRU(cmp.Or(c.Max, maxKnown), func(_ K, e *remembered[V]) { c.used -= e.bytes })
	}
}

// Get returns the value for k. If the value has expired and was not removed yet, Get returns it with ok as false, for callers that use
// old values while they look up new ones. If k has no value, Get returns the zero V and false.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.lock()
	defer c.mu.Unlock()
	e, ok := c.known.Get(k)
	if !ok {
		return v, false
	}
	return e.value, e.isValid()
}

// Peek is Get, but the value does not count as used.
func (c *Cache[K, V]) Peek(k K) (v V, ok bool) {
	c.lock()
	defer c.mu.Unlock()
	e, ok := c.known.Peek(k)
	if !ok {
		return v, false
	}
	return e.value, e.isValid()
}

// GetOrAdd returns the value for k if it has not expired. Otherwise it stores and returns v, as Add does.
func (c *Cache[K, V]) GetOrAdd(k K, v V, d time.Duration, bytes int64) V {
	c.lock()
	defer c.mu.Unlock()
	if e, ok := c.known.Get(k); ok && e.isValid() {
		return e.value
	}
	if d > 0 {
		c.put(k, newRemembered(v, d, bytes))
	}
	return v
}

// Add stores v, which has some bytes, for the duration d, if d is positive.
func (c *Cache[K, V]) Add(k K, v V, d time.Duration, bytes int64) {
	if d > 0 {
		c.lock()
		defer c.mu.Unlock()
		c.put(k, newRemembered(v, d, bytes))
	}
}

// Begin must be called before a value for k is looked up. The caller stores the value with remember. remember does
// nothing if k was dropped or added since Begin, or if Begin was called for k again: of several look-ups at the same time, only that of
// the last Begin is stored.
func (c *Cache[K, V]) Begin(k K) (remember func(v V, d time.Duration, bytes int64)) {
	c.lock()
	defer c.mu.Unlock()
	mark := &remembered[V]{}
	if e, ok := c.known.Peek(k); ok {
		*mark = *e
	}
	c.put(k, mark)
	return func(v V, d time.Duration, bytes int64) {
		c.lock()
		defer c.mu.Unlock()
		if e, _ := c.known.Peek(k); e == mark && d > 0 {
			c.put(k, newRemembered(v, d, bytes))
		}
	}
}

func (c *Cache[K, V]) put(k K, e *remembered[V]) {
	c.known.Remove(k) // Add would not report the replaced value
	if c.Limit > 0 && e.bytes > c.Limit {
		return // it would remove all other values, and still not fit
	}
	c.used += e.bytes
	c.known.Add(k, e)
	for c.Limit > 0 && c.used > c.Limit {
		c.known.RemoveOldest()
	}
}

// Drop removes k.
func (c *Cache[K, V]) Drop(k K) {
	c.lock()
	defer c.mu.Unlock()
	c.known.Remove(k)
}

// Keys returns all keys, also those of expired values that were not removed yet.
func (c *Cache[K, V]) Keys() []K {
	c.lock()
	defer c.mu.Unlock()
	return c.known.Keys()
}

// Remove removes every key that matches.
func (c *Cache[K, V]) Remove(match func(K) bool) {
	c.lock()
	defer c.mu.Unlock()
	for _, k := range c.known.Keys() {
		if match(k) {
			c.known.Remove(k)
		}
	}
}
